// Package command is the user's command line: it reads arguments and settings,
// calls the packages beside it, and writes answers. Answers go to the standard
// output, progress and errors to the standard error.
package command
