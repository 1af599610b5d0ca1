package atomicfile

// Op is a step that changes what a restart finds.
type Op string

// The steps, in the order of a write. Remove takes a name away (a temporary
// file's, too), Move is the rename of a file from one folder to another.
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
	// Path is the file or the folder that the step is about.
	Path string
	// After is true once the step is done.
	After bool
}

// Hook is called before and after each step. An error before a step is
// returned instead of taking it; an error after a step is returned although
// it was taken. A hook that has failed once and goes on failing is a process
// that died there: nothing is cleaned up past it, because cleaning up is a
// step as well. A nil Hook does nothing.
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
