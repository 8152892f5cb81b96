"""The load client: replays workloads against a server of the OpenAI API and measures what its readers get."""
