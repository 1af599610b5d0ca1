package mirror_test

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/provision/persist"
	"github.com/croft-edge/croft/provision/persist/mirror"
)

// Lists that fail now and then, each within the doubt of the one before, don't keep what nothing needs for good.
func TestListsThatFailNowAndThen(t *testing.T) {
	const doubt = 400 * time.Millisecond
	w := newWorld(t)
	w.edit = func(c *mirror.Config) { c.Doubt = doubt }
	m, stop := w.start()
	defer stop()
	rec := w.write(w.record())[0]
	mirrored(t, m)
	var failed, failures, removed atomic.Int64
	w.provider.set(func() {
		w.provider.put = func(o persist.Object) error {
			if now := time.Now().UnixNano(); o.Kind == "list" && time.Duration(now-failed.Load()) > doubt/4 {
				failed.Store(now)
				failures.Add(1)
				return node.Errorf(node.Transient, "the connection broke")
			}
			return nil
		}
		w.provider.step = func(what string, after bool) error {
			if what == "delete file" && after && failures.Load() > 1 {
				removed.Add(1)
			}
			return nil
		}
	})
	until(t, "some are removed", func() bool {
		rec.Attempts++
		w.write(rec)
		return removed.Load() > 10
	})
}

// A list that a process had sent when it ended may arrive while the next one writes others: what it names is still there.
func TestALateListAfterARestart(t *testing.T) {
	w := newWorld(t)
	w.edit = func(c *mirror.Config) { c.Doubt = time.Hour }
	m, stop := w.start()
	rec := w.write(w.record())[0]
	mirrored(t, m)
	var late atomic.Pointer[persist.Object]
	w.provider.set(func() {
		w.provider.put = func(o persist.Object) error {
			if o.Kind != "list" {
				return nil
			}
			late.CompareAndSwap(nil, &o)
			return node.Errorf(node.Transient, "the node dies here")
		}
	})
	rec.Attempts = 1
	w.write(rec, w.record())
	then := files(t, w.folder())
	until(t, "it is sent", func() bool { return late.Load() != nil })
	stop()
	w.provider = w.newProvider()
	m, stop = w.start()
	for i := range 3 {
		rec.Attempts = 2 + i
		w.write(rec)
		m.Check()
		mirrored(t, m)
	}
	stop()
	arrivesLate(t, w, *late.Load(), then)
}

// A change of the store that doesn't end holds up nobody who asks for something.
func TestAChangeThatDoesNotEnd(t *testing.T) {
	w := newWorld(t)
	m, stop := w.start()
	defer stop()
	w.live()
	mirrored(t, m)
	m.Begin()
	began := time.Now()
	for range 10 {
		before := w.provider.count("get key")
		m.Check()
		until(t, "it is compared", func() bool { return w.provider.count("get key") > before })
	}
	if took := time.Since(began); took > time.Minute { // a reading that nobody can end takes 10 seconds
		t.Errorf("10 checks take %s", took)
	}
	m.Mark()
	w.live()
	mirrored(t, m)
}
