"""One answer: valid and in normal form; several answers: consensus and worker skill."""
