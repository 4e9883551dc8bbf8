"""Doors for programs that ask again and again: a language server for editors, an MCP server for agents."""
