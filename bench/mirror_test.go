package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/internal/testing/s3test"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/persist"
	"github.com/croft-edge/croft/provision/persist/fs"
	"github.com/croft-edge/croft/provision/persist/mirror"
	"github.com/croft-edge/croft/provision/persist/s3"
	"github.com/croft-edge/croft/provision/store"
)

// place is where a mirror is. It counts what is put there.
type place struct {
	persist.Provider
	puts  atomic.Int64
	close func()
}

// newBucket makes a place on the S3 server at HOST:PORT.
func newBucket(b *testing.B, address, prefix string) *place {
	b.Helper()
	p, err := s3.New(s3.Config{Secrets: s3test.Known(), Instances: []s3.Instance{{
		Settings: s3.Settings{Endpoint: address, Bucket: s3test.Bucket, Prefix: prefix, PathStyle: true, Plain: true}, Keys: s3test.Keys,
	}}})
	if err != nil {
		b.Fatal(err)
	}
	return &place{Provider: p, close: p.Close}
}

// newFolder makes a place in a folder in memory, as one on another machine would be that is mounted here.
func newFolder(b *testing.B) *place {
	b.Helper()
	dir, err := os.MkdirTemp(memoryFolder(b), "croft-bench-")
	if err != nil {
		b.Fatal(err)
	}
	p, err := fs.New(fs.Config{Instances: []fs.Settings{{Folder: dir}}})
	if err != nil {
		b.Fatal(err)
	}
	return &place{Provider: p, close: func() { _ = os.RemoveAll(dir) }}
}

func (p *place) PutObject(ctx context.Context, at string, o persist.Object) (persist.Key, error) {
	p.puts.Add(1)
	return p.Provider.PutObject(ctx, at, o)
}

// copied is a store that has a mirror; the mirror runs from run on, until stop.
type copied struct {
	*mirror.Mirror
	at      *place
	records *store.FSStore
	end     func()
	done    chan struct{}
}

// newCopied makes the mirror of the store in a folder, before the store is opened. A pace of 0 is a node's.
func newCopied(b *testing.B, at *place, folder string, key sign.KeyPair, pace time.Duration) *copied {
	b.Helper()
	c := &copied{at: at, done: make(chan struct{})}
	var err error
	c.Mirror, err = mirror.New(mirror.Config{
		Provider: at, Instance: at.Instances()[0], Source: mirror.Folder(folder), Key: key, Pace: pace, Log: zerolog.Nop(),
		Birth: func() (string, []string) { return c.records.Birth().ID, c.records.Ancestors() },
	})
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func (c *copied) run(records *store.FSStore) {
	c.records = records
	ctx, cancel := context.WithCancel(context.Background())
	c.end = cancel
	go func() {
		defer close(c.done)
		_ = c.Run(ctx)
	}()
}

// whole waits until the mirror has everything.
func (c *copied) whole(b *testing.B) {
	b.Helper()
	for deadline := time.Now().Add(10 * time.Minute); ; time.Sleep(2 * time.Millisecond) {
		s := c.Status()
		if s.Complete && s.Names == 0 && s.Error == "" {
			return
		}
		if time.Now().After(deadline) {
			b.Fatalf("the mirror doesn't have everything after ten minutes: %+v", s)
		}
	}
}

func (c *copied) stop() {
	c.end()
	<-c.done
	c.at.close()
}

// BenchmarkMirror measures how long a mirror takes to get a store of 10,000 records, from its start until a store can be restored from it, and
// a restore of a store with 500. The S3 server is another process of this machine and keeps its objects in memory; the stores are on the disk.
func BenchmarkMirror(b *testing.B) {
	const many, few, restores = 10_000, 500, 3
	for b.Loop() {
		server, key := s3test.New(b), benchKey(b)
		took := firstCopy(b, newBucket(b, server.Address, "many"), key, many)
		report(b, "mirror: 10,000 records to a local S3", "≤ 60 s", fmt.Sprintf("%.1f s", took.Seconds()), took.Seconds()/60)
		firstCopy(b, newBucket(b, server.Address, "few"), key, few)
		var slowest time.Duration
		for range restores {
			slowest = max(slowest, restored(b, newBucket(b, server.Address, "few"), key, few))
		}
		report(b, "mirror: restore of 500 records from it", "≤ 5 s", fmt.Sprintf("%.2f s, the slowest of %d", slowest.Seconds(), restores), slowest.Seconds()/5)
	}
}

// firstCopy is the time that a new mirror takes for a store with that many records.
func firstCopy(b *testing.B, at *place, key sign.KeyPair, records int) time.Duration {
	b.Helper()
	folder := b.TempDir()
	s, err := store.Open(store.Config{Root: folder, NewNode: true})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	var some []store.Record
	for i := range records {
		r := storeRecord(b, i+1)
		r.Phase, r.Result = store.Deployed, &workload.Result{State: workload.StateOK, Created: time.Now().UTC(), Data: json.RawMessage(`{"volume_id":"1-1"}`)}
		if some = append(some, r); len(some) == 256 || i == records-1 {
			if _, err := s.Write(some...); err != nil {
				b.Fatal(err)
			}
			some = nil
		}
	}
	m := newCopied(b, at, folder, key, 0)
	start := time.Now()
	m.run(s)
	m.whole(b)
	took := time.Since(start)
	m.stop()
	if n := at.puts.Load(); n < int64(records) {
		b.Fatalf("%d objects were sent, want one of each of %d records", n, records)
	}
	return took
}

// restored is the time of a restore, with its checks and the store's rebirth.
func restored(b *testing.B, from *place, key sign.KeyPair, records int) time.Duration {
	b.Helper()
	defer from.close()
	folder := filepath.Join(b.TempDir(), "store")
	start := time.Now()
	_, err := mirror.Restore(b.Context(), mirror.RestoreConfig{
		Provider: from, Instance: from.Instances()[0], Machine: persist.MachineID(key.ID()), Key: key, Folder: folder,
		Rebirth: func(folder string) error {
			s, err := store.Open(store.Config{Root: folder})
			if err != nil {
				return err
			}
			defer s.Close()
			return s.Rebirth()
		},
	})
	took := time.Since(start)
	if err != nil {
		b.Fatal(err)
	}
	s, err := store.Open(store.Config{Root: folder})
	if err != nil {
		b.Fatal(err)
	}
	defer s.Close()
	if got := s.Counters().Volume; got != int64(records) {
		b.Fatalf("%d volumes are in the restored store, want %d", got, records)
	}
	return took
}
