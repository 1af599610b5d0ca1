package admin

import (
	"os"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

// labelPrefix begins the names of the extended attributes of a zdb's volume that hold
// the hashes of its namespaces' owners; a namespace's name follows. They go with the
// data. Only the node's root may set trusted attributes, so the zdb itself can't, and a
// zdb of any version needs to know nothing of them.
const labelPrefix = "trusted.croft.namespace."

// mostLabel is more than the size of any label, in bytes.
const mostLabel = 128

// labelOf is a namespace's hash; empty when it has none.
func labelOf(data, name string) (string, error) {
	buffer := make([]byte, mostLabel)
	n, err := unix.Lgetxattr(data, labelPrefix+name, buffer)
	if errors.Is(err, unix.ENODATA) {
		return "", nil
	}
	if err != nil {
		return "", labelError(err, "read", name)
	}
	return string(buffer[:n]), nil
}

// setLabel writes a namespace's hash durably. An empty one removes it.
func setLabel(data, name, hash string) error {
	if hash == "" {
		return dropLabel(data, name)
	}
	if err := unix.Lsetxattr(data, labelPrefix+name, []byte(hash), 0); err != nil {
		return labelError(err, "write", name)
	}
	folder, err := os.Open(data)
	if err != nil {
		return labelError(err, "write", name)
	}
	defer folder.Close()
	if err := folder.Sync(); err != nil {
		return labelError(err, "write", name)
	}
	return nil
}

func dropLabel(data, name string) error {
	err := unix.Lremovexattr(data, labelPrefix+name)
	if err == nil || errors.Is(err, unix.ENODATA) {
		return nil
	}
	return labelError(err, "remove", name)
}

func labelError(err error, verb, name string) error {
	kind := node.Transient
	if errors.Is(err, unix.ENOSPC) || errors.Is(err, unix.EDQUOT) {
		kind = node.NoSpace
	}
	return node.Errorf(kind, "cannot %s the label of namespace %s: %w", verb, name, err)
}
