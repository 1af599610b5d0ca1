package filelock

// Fd is the descriptor of the lock's open file.
func Fd(l *Lock) uintptr { return l.file.Fd() }
