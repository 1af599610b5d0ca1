// Package pid1 is the first process of a container: it runs the container's program, forwards signals,
// collects orphans, and exits with the program's code. Beside it, it serves the web terminal.
package pid1
