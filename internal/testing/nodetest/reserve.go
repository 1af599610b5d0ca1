package nodetest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/workload"
)

// Volume is a reservation for a volume of gib GiB of SSD, signed by the world's user.
func (r *Reservations) Volume(nodeID string, gib uint64, d time.Duration) *workload.Reservation {
	r.Helper()
	return r.VolumeOn(workload.SSD, nodeID, gib, d)
}

// VolumeOn is Volume on disks of a type.
func (r *Reservations) VolumeOn(disk workload.DeviceType, nodeID string, gib uint64, d time.Duration) *workload.Reservation {
	r.Helper()
	signed := &workload.Reservation{
		NodeID: nodeID, Type: workload.TypeVolume, Created: time.Now(), Duration: d,
		Data: json.RawMessage(fmt.Sprintf(`{"size":%d,"type":%q}`, gib, disk)),
	}
	if err := signed.Sign(r.User.Private()); err != nil {
		r.Fatal(err)
	}
	return signed
}

// Push pushes r and sets its ID.
func (e *ExplorerServer) Push(r *workload.Reservation) *workload.Reservation {
	e.Helper()
	id, err := e.Client.Reserve(e.Context(), r)
	if err != nil {
		e.Fatal(err)
	}
	r.ID = id
	return r
}

// Reserve pushes a reservation for a volume of 1 GiB.
func (w *World) Reserve(n *Node, d time.Duration) *workload.Reservation {
	w.Helper()
	return w.Push(w.Volume(n.ID, 1, d))
}

// Expiring is a deployed reservation that will soon expire. reserve pushes one of the given duration, at first the
// shortest. A busy machine takes longer to deploy it: then another with twice the duration is pushed, until half of
// one's duration is left.
func (w *World) Expiring(shortest time.Duration, reserve func(d time.Duration) *workload.Reservation) *workload.Reservation {
	w.Helper()
	for d := shortest; ; d *= 2 {
		r := reserve(d)
		var is *workload.Result
		w.Until(Soon, r.ID+" has a result", func() bool {
			got, err := w.Client.Get(w.Context(), r.ID)
			is = got.Result
			return err == nil && is != nil
		})
		if is.State == workload.StateOK && time.Until(r.Expires()) > d/2 {
			return r
		}
		if late := time.Until(r.Expires()) <= d/2; !late || d > 64*shortest {
			w.Fatalf("%s, which lasts %s, is %s: %s", r.ID, d, is.State, is.Error)
		}
		if is.State == workload.StateOK {
			w.Result(r, workload.StateExpired)
		}
	}
}

// Result waits until the explorer has a result of that state, verifies the node's signature, and
// returns it.
func (e *ExplorerServer) Result(r *workload.Reservation, state workload.State) *workload.Result {
	e.Helper()
	var last *workload.Result
	e.until(Soon, r.ID+" has the result "+string(state), func() bool {
		got, err := e.Client.Get(e.Context(), r.ID)
		if err != nil || got.Result == nil {
			return false
		}
		if got.Result.State != state && (last == nil || last.State != got.Result.State) {
			e.Logf("%s has the result %s: %s", r.ID, got.Result.State, got.Result.Error)
		}
		last = got.Result
		return last.State == state
	})
	e.checkSignature(r, last)
	return last
}

func (e *ExplorerServer) checkSignature(r *workload.Reservation, result *workload.Result) {
	e.Helper()
	h, err := r.Hash()
	if err != nil {
		e.Fatal(err)
	}
	if err := workload.VerifyResult(result, r.NodeID, h); err != nil {
		e.Fatal(err)
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

// Volumes are the volumes on a node's pools.
type Volumes struct {
	tb     testing.TB
	runDir string
}

// Subvolumes are the volumes on the node's pools, by name, each with an identity: the inode's creation
// time.
func (v *Volumes) Subvolumes() map[string]string {
	v.tb.Helper()
	found, err := filepath.Glob(filepath.Join(v.runDir, "pools", "*", "volumes", "*"))
	if err != nil {
		v.tb.Fatal(err)
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

// VolumePath is the path of r's volume.
func (v *Volumes) VolumePath(r *workload.Reservation) string {
	v.tb.Helper()
	found, err := filepath.Glob(filepath.Join(v.runDir, "pools", "*", "volumes", r.ID))
	if err != nil || len(found) != 1 {
		v.tb.Fatalf("volume %s is %d times on the node: %v, %v", r.ID, len(found), found, err)
	}
	return found[0]
}

// Leave writes a note into r's volume.
func (v *Volumes) Leave(r *workload.Reservation, note string) {
	v.tb.Helper()
	if err := os.WriteFile(filepath.Join(v.VolumePath(r), "note"), []byte(note), 0o600); err != nil {
		v.tb.Fatal(err)
	}
}

// Note reads the note in r's volume.
func (v *Volumes) Note(r *workload.Reservation) string {
	v.tb.Helper()
	raw, err := os.ReadFile(filepath.Join(v.VolumePath(r), "note"))
	if err != nil {
		v.tb.Fatal(err)
	}
	return string(raw)
}
