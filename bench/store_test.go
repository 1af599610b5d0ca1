package bench

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/store"
)

// storeRounds is how many turns store and disk take, storeBatch how many records each writes in a turn:
// as they take turns in one run, noise affects both.
const (
	storeRounds = 10
	storeBatch  = 20
)

// BenchmarkStore compares the durable store with its disk: a record's intent and result, and the same
// two files written, synced and renamed without a store.
func BenchmarkStore(b *testing.B) {
	for range b.N {
		storeAgainstDisk(b)
	}
}

func storeAgainstDisk(b *testing.B) {
	root := b.TempDir()
	s, err := store.NewFSStore(filepath.Join(root, "store"))
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	raw, size := filepath.Join(root, "raw"), 0
	if err := os.Mkdir(raw, 0o700); err != nil {
		b.Fatal(err)
	}
	var records []store.Record
	for i := range storeRounds*storeBatch + 1 {
		records = append(records, storeRecord(b, i))
	}
	size = intentAndResult(b, s, records[0], filepath.Join(root, "store"))
	var ours, disk time.Duration
	for round := range storeRounds {
		turn := records[1+round*storeBatch:][:storeBatch]
		start := time.Now()
		for _, r := range turn {
			rawWrite(b, raw, r.ID(), size)
			rawWrite(b, raw, r.ID(), size)
		}
		disk += time.Since(start)
		start = time.Now()
		for _, r := range turn {
			intentAndResult(b, s, r, "")
		}
		ours += time.Since(start)
	}
	per := func(d time.Duration) float64 { return storeRounds * storeBatch / d.Seconds() }
	report(b, "store: intent + result, against the disk", fmt.Sprintf("≥ 0.8 × disk (%.0f/s)", per(disk)), fmt.Sprintf("%.0f/s", per(ours)), per(ours)/per(disk))
}

func storeRecord(b *testing.B, i int) store.Record {
	b.Helper()
	key, err := sign.FromSeed(make([]byte, sign.SeedSize))
	if err != nil {
		b.Fatal(err)
	}
	r := &workload.Reservation{
		ID: workload.ID{N: uint64(i), M: 1}.String(), NodeID: key.ID(), Type: workload.TypeVolume,
		Data: json.RawMessage(`{"size":1,"type":"SSD"}`), Created: time.Now().UTC(), Duration: time.Hour,
	}
	if err := r.Sign(key.Private()); err != nil {
		b.Fatal(err)
	}
	h, err := r.Hash()
	if err != nil {
		b.Fatal(err)
	}
	return store.Record{Reservation: r, Hash: h, Phase: store.Intent, Admitted: true, Begun: true, Accepted: r.Created}
}

// intentAndResult returns the size of the record's file, when root is given.
func intentAndResult(b *testing.B, s *store.FSStore, r store.Record, root string) int {
	b.Helper()
	if _, err := s.Write(r); err != nil {
		b.Fatal(err)
	}
	r.Phase, r.Result = store.Deployed, &workload.Result{State: workload.StateOK, Created: time.Now().UTC(), Data: json.RawMessage(`{"volume_id":"1-1"}`)}
	if _, err := s.Write(r); err != nil {
		b.Fatal(err)
	}
	if root == "" {
		return 0
	}
	info, err := os.Stat(filepath.Join(root, r.ID()))
	if err != nil {
		b.Fatal(err)
	}
	return int(info.Size())
}

// rawWrite is a durable write's system calls alone.
func rawWrite(b *testing.B, folder, name string, size int) {
	b.Helper()
	temp := filepath.Join(folder, ".tmp-"+name)
	f, err := os.OpenFile(temp, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		b.Fatal(err)
	}
	dir, err := os.Open(folder)
	if err != nil {
		b.Fatal(err)
	}
	defer dir.Close()
	_, err = f.Write(make([]byte, size))
	for _, step := range []func() error{
		func() error { return err }, f.Sync, f.Close,
		func() error { return os.Rename(temp, filepath.Join(folder, name)) }, dir.Sync,
	} {
		if err := step(); err != nil {
			b.Fatal(err)
		}
	}
}
