// Package shell is what every command of croft has at hand: the process around it, the
// user's settings and key, the explorer's client, and how answers, progress and mistakes
// on the command line are written. It knows no command.
package shell
