"""Where events and interests go: one file a scheme, the registry that names them, and what each claims."""
