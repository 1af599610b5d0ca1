package rootfs

// Bind is a folder or file of the node that is mounted in a container.
type Bind struct {
	// Source is its path on the node, Target that in the container: an absolute
	// one, resolved inside the root, whatever links lie on the way.
	Source string
	Target string
	// ReadOnly mounts it so. File says that it is a file, else it is a folder.
	ReadOnly bool
	File     bool
	// Mapped mounts it id-mapped: on disk its files carry the container's IDs.
	Mapped bool
}

// File is a file that is mounted read-only in a container.
type File struct {
	Target  string
	Content []byte
	// Mode is its permissions, 0444 when 0.
	Mode uint32
}

// Spec says what a container stands on.
type Spec struct {
	// ID is the reservation's, User owns it.
	ID   string
	User string
	// Lower are the folders of the image's layers, topmost first.
	Lower []string
	// Layer is the folder that holds what the container writes beside its
	// volumes. Nothing else uses it.
	Layer string
	Binds []Bind
	Files []File
}
