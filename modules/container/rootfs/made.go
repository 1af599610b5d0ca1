package rootfs

import (
	"encoding/json"
	"os"
	"path/filepath"
	"sync"

	"github.com/pkg/errors"

	"github.com/croft-edge/croft/pkg/fileid"
)

const recordName = "made.json"

// Made is a container's root file system and namespaces.
type Made struct {
	// Root is the path of its root file system in the mount namespace MountNS, see Within, which is there for
	// as long as the store has it. The files UserNS and NetNS keep its own namespaces.
	Root    string
	MountNS string
	UserNS  string
	NetNS   string
	Range   Range
}

func madeIn(folder string, r Range) Made {
	return Made{Root: filepath.Join(folder, rootName), MountNS: MountNS(folder), UserNS: filepath.Join(folder, userName), NetNS: filepath.Join(folder, netName), Range: r}
}

// MountNS leads to the mount namespace with a container's root, in the container's folder.
func MountNS(folder string) string { return filepath.Join(folder, mountsName) }

// record is made.json: the parts that were made. It may outlive the mounts that
// it names, which end with a reboot.
type record struct {
	User       string     `json:"user"`
	Range      Range      `json:"range"`
	Namespaces namespaces `json:"namespaces"`
	Root       *root      `json:"root,omitempty"`
}

// root is the root file system of a record, once all of it is made.
type root struct {
	// Digest is that of the spec.
	Digest string `json:"digest"`
	// Layer is the folder of its upper folder, with which folders they were.
	Layer         string   `json:"layer"`
	LayerIdentity identity `json:"layer_identity"`
	Upper         identity `json:"upper"`
	Bound         []bound  `json:"bound"`
	// HandedOver is whether only the container has its mounts.
	HandedOver bool `json:"handed_over,omitempty"`
}

// readRecord reads it; nil when there is none that can be used.
func readRecord(folder string) (*record, error) {
	raw, err := os.ReadFile(filepath.Join(folder, recordName))
	if os.IsNotExist(err) {
		return nil, nil
	}
	if err != nil {
		return nil, errors.Wrap(err, "cannot read the record of a container's root")
	}
	var r record
	if json.Unmarshal(raw, &r) != nil {
		return nil, nil // half of it, by a power cut
	}
	return &r, nil
}

// write puts it in place whole. It needn't outlive a power cut: nothing that
// it is about does.
func (r *record) write(folder string) error {
	raw, err := json.Marshal(r)
	if err != nil {
		return err
	}
	path := filepath.Join(folder, recordName)
	if err := os.WriteFile(path+".new", raw, 0o600); err != nil {
		return failed("write", path, err)
	}
	return failed("write", path, os.Rename(path+".new", path))
}

// records are containers' records as they were last read. One is read again once its file has changed, or is another one: a look at all
// containers costs one question to the kernel for each record, and parses none. What another process writes within the tick of the kernel's clock in
// which it was read isn't seen; the store's own writes are. The zero value is ready to be used.
//
// The lock of a record's container must be held.
type records struct {
	mu sync.Mutex
	// kept are the records by the folders of their containers.
	kept map[string]keptRecord
}

// keptRecord is a record, and the file that it was read from. Nobody changes it.
type keptRecord struct {
	from fileid.ID
	record
}

// read is readRecord.
func (r *records) read(folder string) (*record, error) {
	at, err := fileid.At(filepath.Join(folder, recordName))
	if err != nil {
		r.forget(folder)
		return readRecord(folder) // which tells a record that isn't there from one that can't be read
	}
	if kept, there := r.get(folder); there && kept.from == at {
		return &kept.record, nil
	}
	is, err := readRecord(folder)
	if err != nil || is == nil {
		r.forget(folder)
		return is, err
	}
	// Changed since it was looked at, it is read again the next time.
	r.put(folder, keptRecord{at, *is})
	return is, nil
}

// write is record.write. The file is looked at anew after it, whatever the kernel says of the file.
func (r *records) write(folder string, is *record) error {
	r.forget(folder)
	return is.write(folder)
}

func (r *records) get(folder string) (kept keptRecord, there bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	kept, there = r.kept[folder]
	return kept, there
}

func (r *records) put(folder string, is keptRecord) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.kept == nil {
		r.kept = map[string]keptRecord{}
	}
	r.kept[folder] = is
}

func (r *records) forget(folder string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.kept, folder)
}
