"""Chats and instructions: templates, and which tokens carry loss."""
