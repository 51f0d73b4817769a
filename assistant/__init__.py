"""What a language model gets of flowc: the server of the Model Context Protocol."""
