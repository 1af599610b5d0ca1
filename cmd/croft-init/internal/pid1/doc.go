// Package pid1 is what the first process of a container does: it runs the
// container's program, passes on the signals that come, collects orphans, and
// ends as the program does. Beside it the web terminal answers.
package pid1
