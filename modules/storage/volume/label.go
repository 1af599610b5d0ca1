package volume

import (
	"encoding/json"
	"sync"

	"github.com/pkg/errors"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/btrfs"
)

// The extended attributes that name a thing's owner. Only the node's root may
// set those of the trusted namespace, so a volume's user can't.
const (
	filesystemLabel = "trusted.croft.filesystem"
	vdiskLabel      = "trusted.croft.vdisk"
	stateLabel      = "trusted.croft.state"
)

// Label is the value of the attribute. It is the truth of a thing's size;
// the quota follows it, and a disk's image.
type Label struct {
	// Name must be that of the folder: a copy made by hand isn't ours.
	Name string `json:"name"`
	Size uint64 `json:"size"`
	// Hash says whose it is, see node.Claim; labels of an older croft have none.
	Hash string `json:"hash,omitempty"`
}

func setLabel(path, attribute string, l Label) error {
	text, err := json.Marshal(l)
	if err == nil {
		err = unix.Lsetxattr(path, attribute, text, 0)
	}
	return btrfs.Wrap(err, "cannot label %s", path)
}

// labelBuffer is room for a label, in bytes.
const labelBuffer = 512

// labels reads labels. It keeps those that it has read by their text: each look at a pool reads all of them, and hardly ever one
// has changed.
type labels struct {
	mu   sync.Mutex
	read map[string]Label
}

// get reads the label of path; found is false when nothing is there or
// it isn't labelled as name. The buffer is written to.
func (k *labels) get(path, attribute, name string, buffer []byte) (l Label, found bool, err error) {
	n, err := unix.Lgetxattr(path, attribute, buffer)
	if errors.Is(err, unix.ENODATA) || errors.Is(err, unix.ENOENT) || errors.Is(err, unix.ERANGE) {
		return Label{}, false, nil
	}
	if err != nil {
		return Label{}, false, btrfs.Wrap(err, "cannot read the label of %s", path)
	}
	if l = k.parse(buffer[:n]); l.Name != name {
		return Label{}, false, nil
	}
	return l, true, nil
}

// mostLabels bounds the labels that are kept between two looks at all of them.
const mostLabels = 4096

// parse reads a label's text; the label of any other text has no name.
func (k *labels) parse(text []byte) Label {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l, known := k.read[string(text)]; known {
		return l
	}
	if len(k.read) >= mostLabels {
		clear(k.read)
	}
	var l Label
	if json.Unmarshal(text, &l) != nil {
		return Label{}
	}
	k.read[string(text)] = l
	return l
}

// keep forgets the labels that it has read when most of them are of things that are gone; count are there.
func (k *labels) keep(count int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.read) > 2*count {
		clear(k.read)
	}
}
