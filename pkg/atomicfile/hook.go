package atomicfile

// Op is a step that changes the state after a restart.
type Op string

// The steps, in the order of a write. Remove removes a name (a temporary
// file's, too), Move renames a file from one folder to another.
const (
	Write   Op = "write"
	Sync    Op = "fsync"
	Rename  Op = "rename"
	SyncDir Op = "dirsync"
	Remove  Op = "remove"
	Move    Op = "move"
)

// Point is a place in the sequence of steps: before or after one of them.
type Point struct {
	Op Op
	// Path is the step's file or folder.
	Path string
	// After is true once the step is done.
	After bool
}

// Hook is called before and after each step. An error before a step is
// returned instead of taking it; an error after a step is returned although
// it was taken. A hook that goes on failing simulates a process that died at
// that point: no cleanup follows, because cleaning up is a step as well. A nil
// Hook does nothing.
type Hook func(p Point) error

func (h Hook) around(op Op, path string, step func() error) error {
	if h == nil {
		return step()
	}
	if err := h(Point{Op: op, Path: path}); err != nil {
		return err
	}
	if err := step(); err != nil {
		return err
	}
	return h(Point{Op: op, Path: path, After: true})
}
