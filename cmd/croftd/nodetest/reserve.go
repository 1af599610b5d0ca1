package nodetest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/workload"
)

// Volume is a reservation for a volume of gib GiB, signed by the world's user.
func (w *World) Volume(nodeID string, gib uint64, d time.Duration) *workload.Reservation {
	w.Helper()
	r := &workload.Reservation{
		NodeID: nodeID, Type: workload.TypeVolume, Created: time.Now(), Duration: d,
		Data: json.RawMessage(fmt.Sprintf(`{"size":%d,"type":"SSD"}`, gib)),
	}
	if err := r.Sign(w.User.Private()); err != nil {
		w.Fatal(err)
	}
	return r
}

// Push pushes r and gives it its ID.
func (w *World) Push(r *workload.Reservation) *workload.Reservation {
	w.Helper()
	id, err := w.Client.Reserve(w.Context(), r)
	if err != nil {
		w.Fatal(err)
	}
	r.ID = id
	return r
}

// Reserve pushes a reservation for a volume of 1 GiB.
func (w *World) Reserve(n *Node, d time.Duration) *workload.Reservation {
	w.Helper()
	return w.Push(w.Volume(n.ID, 1, d))
}

// Result waits until the explorer has a result of that state, checks the
// node's signature, and returns it.
func (w *World) Result(r *workload.Reservation, state workload.State) *workload.Result {
	w.Helper()
	var last *workload.Result
	w.Until(60*time.Second, r.ID+" has the result "+string(state), func() bool {
		got, err := w.Client.Get(w.Context(), r.ID)
		if err != nil || got.Result == nil {
			return false
		}
		last = got.Result
		return last.State == state
	})
	w.checkSignature(r, last)
	return last
}

func (w *World) checkSignature(r *workload.Reservation, result *workload.Result) {
	w.Helper()
	h, err := r.Hash()
	if err != nil {
		w.Fatal(err)
	}
	if err := workload.VerifyResult(result, r.NodeID, h); err != nil {
		w.Fatal(err)
	}
}

// Delete pushes the user's signed deletion of r.
func (w *World) Delete(r *workload.Reservation) {
	w.Helper()
	if err := r.SignDeletion(workload.Deletion{Created: time.Now()}, w.User.Private()); err != nil {
		w.Fatal(err)
	}
	if err := w.Client.Delete(w.Context(), r.ID, *r.Deletion); err != nil {
		w.Fatal(err)
	}
}

// Subvolumes are the volumes that are on the node's pools, by name, with what
// identifies each: the file system and the inode's creation time.
func (n *Node) Subvolumes() map[string]string {
	n.w.Helper()
	found, err := filepath.Glob(filepath.Join(n.RunDir(), "pools", "*", "volumes", "*"))
	if err != nil {
		n.w.Fatal(err)
	}
	out := map[string]string{}
	for _, path := range found {
		var stat unix.Statx_t
		if err := unix.Statx(unix.AT_FDCWD, path, 0, unix.STATX_BASIC_STATS|unix.STATX_BTIME, &stat); err != nil {
			continue
		}
		out[filepath.Base(path)] = fmt.Sprintf("%d.%09d", stat.Btime.Sec, stat.Btime.Nsec)
	}
	return out
}

// VolumePath is where r's volume is.
func (n *Node) VolumePath(r *workload.Reservation) string {
	n.w.Helper()
	found, err := filepath.Glob(filepath.Join(n.RunDir(), "pools", "*", "volumes", r.ID))
	if err != nil || len(found) != 1 {
		n.w.Fatalf("volume %s is %d times on the node: %v, %v", r.ID, len(found), found, err)
	}
	return found[0]
}

// Leave writes a note into r's volume.
func (n *Node) Leave(r *workload.Reservation, note string) {
	n.w.Helper()
	if err := os.WriteFile(filepath.Join(n.VolumePath(r), "note"), []byte(note), 0o600); err != nil {
		n.w.Fatal(err)
	}
}

// Note reads the note in r's volume.
func (n *Node) Note(r *workload.Reservation) string {
	n.w.Helper()
	raw, err := os.ReadFile(filepath.Join(n.VolumePath(r), "note"))
	if err != nil {
		n.w.Fatal(err)
	}
	return string(raw)
}
