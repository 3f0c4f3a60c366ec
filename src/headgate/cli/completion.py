"""`headgate config completion bash|zsh|fish`: the script that lets a shell complete commands and options."""

import click
from click.shell_completion import get_completion_class

from headgate.cli.terminal import echo

_INSTALL = {
    "bash": 'eval "$(headgate config completion bash)"   # in ~/.bashrc',
    "zsh": 'eval "$(headgate config completion zsh)"    # in ~/.zshrc',
    "fish": "headgate config completion fish | source   # in ~/.config/fish/config.fish",
}


@click.command(
    epilog="\b\nPut this line into the file that your shell reads at its start:\n"
    + "\n".join(f"  {line}" for line in _INSTALL.values())
)
@click.argument("shell", type=click.Choice(list(_INSTALL)))
@click.pass_context
def completion(ctx: click.Context, shell: str) -> None:
    """Print the script that lets SHELL complete commands and options."""
    kind = get_completion_class(shell)
    assert kind is not None
    app = ctx.find_root().command
    echo(kind(app, {}, "headgate", "_HEADGATE_COMPLETE").source())
