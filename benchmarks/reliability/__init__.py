"""Kill commands at random moments, and measure their memory on large inputs."""
