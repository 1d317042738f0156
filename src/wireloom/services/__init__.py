"""Live programs: thin asyncio shells around the sessions of the formats."""
