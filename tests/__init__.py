"""The suite's own tests: CPU and gloo, real process groups, no mocks.   pytest tests"""
