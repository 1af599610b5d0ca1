package pid1

import (
	"os"
	"syscall"
)

// lastSignal is the highest that the kernel has; firstFree the first that
// programs may use as they like, the two before it are threads' own.
const (
	firstFree  = 34
	lastSignal = 64
)

// passedOn are the signals that the program gets as they come: all but those that
// can't be caught, that tell of the process itself, or that come from its own
// faults and runtime.
func passedOn() []os.Signal {
	out := []os.Signal{
		syscall.SIGHUP, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGABRT, syscall.SIGUSR1, syscall.SIGUSR2,
		syscall.SIGALRM, syscall.SIGTERM, syscall.SIGSTKFLT, syscall.SIGCONT, syscall.SIGTSTP, syscall.SIGVTALRM,
		syscall.SIGWINCH, syscall.SIGIO, syscall.SIGPWR,
	}
	for s := firstFree; s <= lastSignal; s++ {
		out = append(out, syscall.Signal(s))
	}
	return out
}

// means tells whether a signal means the end to whom there is no program to ask.
func means(s syscall.Signal) bool {
	switch s {
	case syscall.SIGTERM, syscall.SIGINT, syscall.SIGQUIT, syscall.SIGPWR, firstFree + 3: // the last is what stops an init
		return true
	}
	return false
}
