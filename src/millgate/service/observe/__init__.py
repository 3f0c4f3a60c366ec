"""Internal: what is known of a request and of a call of a model, and its log, metrics, spans and trace."""
