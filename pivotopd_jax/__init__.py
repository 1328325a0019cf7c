"""PivotOPD and its baselines for multi-turn LLM agents, in JAX (arXiv 2609.40285)."""
