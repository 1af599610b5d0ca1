package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/source"
	"github.com/croft-edge/croft/provision/store"
	"github.com/croft-edge/croft/provision/verify"
)

// noOp provisions at once, without effect.
type noOp struct{}

func (noOp) Provision(_ context.Context, r *workload.Reservation) (json.RawMessage, error) {
	return json.Marshal(workload.VolumeResult{ID: r.ID})
}
func (noOp) Decommission(context.Context, *workload.Reservation) error { return nil }
func (noOp) Remove(context.Context, provisioner.Label) error           { return nil }
func (noOp) List(context.Context) ([]string, error)                    { return nil, nil }

// silent is a feedback that never delivers: its writes aren't the engine's.
type silent struct{}

func (silent) Kick() {}
func (silent) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

// trusted is the machine's clock, always trusted.
type trusted struct{}

func (trusted) Read() clock.Reading {
	return clock.Reading{Now: time.Now(), Level: clock.Remove, Uptime: clock.System{}.Boot()}
}
func (trusted) Floor() time.Time { return time.Unix(0, 0) }

// batch is a source that yields reservations once, and ends.
type batch []*workload.Reservation

func (s batch) Items(ctx context.Context) <-chan source.Item {
	out := make(chan source.Item)
	go func() {
		defer close(out)
		for _, r := range s {
			select {
			case out <- source.Item{Kind: source.Arrived, Reservation: r}:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// BenchmarkEngine compares the engine, with a no-op provisioner and the durable store, with the disk's
// speed for the same writes: for each reservation an intent and a result, each a file that is written,
// synced, renamed, and its folder synced. Rounds of both alternate, so that changes of the disk's speed
// affect both.
func BenchmarkEngine(b *testing.B) {
	const rounds, each = 20, 40
	node, user := benchKey(b), benchKey(b)
	var engine, disk time.Duration
	for b.Loop() {
		engine, disk = 0, 0
		for round := range rounds {
			all := signed(b, node, user, round*each, each)
			if round%2 == 1 {
				disk += diskRound(b, 2*each, recordSize)
			}
			engine += engineRound(b, node, all, beside{})
			if round%2 == 0 {
				disk += diskRound(b, 2*each, recordSize)
			}
		}
	}
	perSecond := func(d time.Duration) float64 { return rounds * each / d.Seconds() }
	ratio := perSecond(engine) / perSecond(disk)
	report(b, "engine, no-op provisioner, durable store", "≥ 0.8 × the disk",
		fmt.Sprintf("%.0f/s of %.0f/s", perSecond(engine), perSecond(disk)), ratio)
}

func benchKey(b *testing.B) sign.KeyPair {
	b.Helper()
	k, err := sign.Generate()
	if err != nil {
		b.Fatal(err)
	}
	return k
}

func signed(b *testing.B, node, user sign.KeyPair, first, n int) batch {
	b.Helper()
	var out batch
	for i := range n {
		r := &workload.Reservation{
			ID: strconv.Itoa(first+i) + "-1", NodeID: node.ID(), Type: workload.TypeVolume,
			Data: json.RawMessage(`{"size":1,"type":"SSD"}`), Created: time.Now(), Duration: time.Hour,
		}
		if err := r.Sign(user.Private()); err != nil {
			b.Fatal(err)
		}
		out = append(out, r)
	}
	return out
}

// recordSize is the size of a volume's record, in bytes; engineRound checks it.
const recordSize = 1500

// engineRound is the time of a batch. What works beside the engine is begun before, and left as it is after.
func engineRound(b *testing.B, node sign.KeyPair, all batch, with beside) time.Duration {
	b.Helper()
	dir := b.TempDir()
	c := store.Config{Root: dir, NewNode: true}
	begin, end := with.copy(b, dir, node, &c)
	records, err := store.Open(c)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = records.Close() }()
	judge, err := verify.New(verify.Config{Policy: verify.Policy{NodeID: node.ID()}, Clock: trusted{}, Store: records, Data: workload.Validate})
	if err != nil {
		b.Fatal(err)
	}
	engine, err := provision.NewEngine(provision.Config{
		Records: records, Sources: []source.Source{all}, Policy: judge, Feedback: silent{}, Clock: trusted{},
		Provisioners: map[workload.Type]provisioner.Provisioner{workload.TypeVolume: noOp{}}, Board: with.board(),
	})
	if err != nil {
		b.Fatal(err)
	}
	begin(records)
	start := time.Now()
	if err := engine.Run(context.Background()); err != nil {
		b.Fatal(err)
	}
	took := time.Since(start)
	end()
	if got := records.Counters().Volume; got != int64(len(all)) {
		b.Fatalf("%d volumes are deployed, want %d", got, len(all))
	}
	info, err := os.Stat(filepath.Join(dir, all[0].ID))
	if err != nil || info.Size() < recordSize/2 || info.Size() > 2*recordSize {
		b.Fatalf("a record takes %v, %v; the disk is asked for %d bytes", info, err, recordSize)
	}
	return took
}

// diskRound is the time of n durable writes of files of that size.
func diskRound(b *testing.B, n, size int) time.Duration {
	b.Helper()
	dir := b.TempDir()
	folder, err := os.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = folder.Close() }()
	data := make([]byte, size)
	start := time.Now()
	for i := range n {
		name := filepath.Join(dir, strconv.Itoa(i/2))
		if err := lasting(name, data); err != nil {
			b.Fatal(err)
		}
		if err := folder.Sync(); err != nil {
			b.Fatal(err)
		}
	}
	return time.Since(start)
}

func lasting(name string, data []byte) error {
	temp := name + ".tmp"
	f, err := os.OpenFile(temp, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if closing := f.Close(); err == nil {
		err = closing
	}
	if err != nil {
		return err
	}
	return os.Rename(temp, name)
}
