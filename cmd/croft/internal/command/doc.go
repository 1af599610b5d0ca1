// Package command is the user's command line: it registers the commands of the packages
// below it, one package a noun, brings arguments into order, and makes exit codes of
// errors. Answers go to the standard output, progress and errors to the standard error.
package command
