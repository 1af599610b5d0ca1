// Package shell is the environment of every command of croft: the process around it, the
// user's settings and key, the explorer's client, and the writing of answers, progress and
// mistakes on the command line. It knows no command.
package shell
