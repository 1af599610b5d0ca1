package main_test

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/workload"
)

// firstID is the ID of the first entry in sequential mode.
const firstID = "\x00\x00\x00\x00\x00\x00\x00\x00"

// writer is a client that writes and reads continuously over one connection.
type writer struct {
	stop chan struct{}
	done sync.WaitGroup

	mu     sync.Mutex
	times  int
	failed error
}

// writes starts a writer on that connection.
func (z *zdbs) writes(conn redis.Conn) *writer {
	w := &writer{stop: make(chan struct{})}
	w.done.Go(func() {
		for i := 0; ; i++ {
			select {
			case <-w.stop:
				return
			default:
			}
			key, value := fmt.Sprint("key ", i%100), fmt.Sprint("value ", i)
			err := unequal(ask(conn, "SET", key, value), key)
			if err == nil {
				err = unequal(ask(conn, "GET", key), value)
			}
			w.mu.Lock()
			w.times, w.failed = i+1, err
			w.mu.Unlock()
			if err != nil {
				return
			}
		}
	})
	z.Cleanup(w.end)
	return w
}

func unequal(got, want string) error {
	if got == want {
		return nil
	}
	return fmt.Errorf("it answers %q, want %q", got, want)
}

func (w *writer) end() {
	select {
	case <-w.stop:
	default:
		close(w.stop)
	}
	w.done.Wait()
}

func (w *writer) state() (times int, failed error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.times, w.failed
}

// goesOn waits until it has written some more.
func (z *zdbs) goesOn(w *writer, what string) {
	z.Helper()
	from, _ := w.state()
	z.Until(nodetest.Soon, what+": the client goes on", func() bool {
		times, failed := w.state()
		if failed != nil {
			z.Fatalf("%s: the client's connection: %v", what, failed)
		}
		return times > from+20
	})
}

// TestNothingDisturbsANamespace: whichever part of the node is killed or changed, a client keeps its
// connection; a killed zdb comes back with its data.
func TestNothingDisturbsANamespace(t *testing.T) {
	z := newZDBs(t)
	r, at := z.made(password("s3cr3t"))
	seq, log := z.made(func(d *workload.ZDB) { d.Mode = workload.ZDBSeq })
	z.answers(z.inside(at, "s3cr3t"), "kept", "SET", "kept", "for good")
	z.answers(z.inside(log, ""), firstID, "SET", "", "first")
	_, was := z.zdbRuns(userZDB)
	client := z.writes(z.inside(at, "s3cr3t"))
	for _, what := range []struct {
		name string
		do   func()
	}{
		{"the agent is killed", func() { z.n.Kill(); z.goesOn(client, "without an agent"); z.n.Start() }},
		{"containerd is killed", z.n.KillContainerd},
		{"the agent is another program", func() { z.n.Stop(); z.Croftd = z.copied(); z.n.Start() }},
	} {
		what.do()
		z.n.WaitReady()
		z.goesOn(client, what.name)
		server, box := z.zdbRuns(userZDB)
		if box.PID != was.PID || uint(server.Port) != at.Port {
			t.Errorf("%s: it is %+v, %+v, was %+v", what.name, server, box, was)
		}
		z.answers(z.inside(at, "s3cr3t"), "for good", "GET", "kept") // new clients can connect
	}
	client.end()
	z.fromAContainer(at)
	z.comesBack(r, at)
	z.madeRight(r, at, log)
	z.endsWell(r, seq)
}

// fromAContainer fails unless a user's real container reaches zdb at the address that its user was
// told: zdb's error shows that it received HTTP.
func (z *zdbs) fromAContainer(at workload.ZDBResult) {
	z.Helper()
	r, url := z.run(nil)
	got, err := z.Get(z.shell.Path(), url+"/get?url=http://"+nodetest.ZDBAddress(at)+"/", time.Minute)
	mentions(z, "what the container got", fmt.Sprint(got, err), `malformed HTTP status code "request,"`)
	z.gone(r)
}

// comesBack damages a zdb in ways from which it must recover.
func (z *zdbs) comesBack(r *workload.Reservation, at workload.ZDBResult) {
	z.Helper()
	for _, what := range []struct {
		name string
		do   func()
	}{
		{"zdb is killed", func() { z.killZDB(userZDB) }},
		{"its container is deleted", func() { z.n.DeleteContainer(nodetest.Own(userZDB)) }},
	} {
		conn := z.inside(at, "s3cr3t")
		for i := range 500 {
			z.answers(conn, fmt.Sprint(what.name, i), "SET", fmt.Sprint(what.name, i), "acknowledged")
		}
		_, was := z.zdbRuns(userZDB)
		what.do()
		began := time.Now()
		z.Until(back, what.name+": its data is back", func() bool {
			conn, err := z.SelectZDB(z.Hub.Path(), nodetest.ZDBAddress(at), r.ID, "s3cr3t")
			if err != nil {
				return false
			}
			defer conn.Close()
			return ask(conn, "GET", fmt.Sprint(what.name, 499)) == "acknowledged" && ask(conn, "GET", "kept") == "for good"
		})
		z.Logf("%s: back after %s", what.name, time.Since(began).Round(time.Millisecond))
		server, box := z.zdbRuns(userZDB)
		if uint(server.Port) != at.Port || box.PID == was.PID {
			z.Errorf("%s: it is %+v, %+v", what.name, server, box)
		}
	}
}

// madeRight changes namespaces outside the node, so that they differ from their reservations, and waits
// for the repair.
func (z *zdbs) madeRight(r *workload.Reservation, at workload.ZDBResult, log workload.ZDBResult) {
	z.Helper()
	gone, there := z.made(password("other words"))
	z.answers(z.inside(there, "other words"), "a", "SET", "a", "b")
	user, seq := z.admin(userZDB), z.admin(seqZDB)
	z.answers(user, "OK", "NSSET", r.ID, "public", "1")
	z.answers(user, "OK", "NSDEL", gone.ID)
	z.answers(seq, "OK", "NSSET", log.Namespace, "maxsize", "5")
	z.answers(seq, "OK", "NSNEW", "4711-1") // named like a reservation's, but without one
	z.Until(back, "all is right again", func() bool {
		conn, err := z.SelectZDB(z.Hub.Path(), nodetest.ZDBAddress(there), gone.ID, "other words")
		if err != nil {
			return false
		}
		defer conn.Close()
		return ask(conn, "GET", "a") == "-nothing" && strings.Contains(ask(user, "NSINFO", r.ID), "public: no") &&
			strings.Contains(ask(seq, "NSINFO", log.Namespace), fmt.Sprintf("data_limits_bytes: %d\n", 1<<30))
	})
	z.Until(back, "it is said", func() bool {
		s := z.n.Status()
		orphan := slices.ContainsFunc(s.Orphans, func(x work.OrphanSpec) bool { return x.Type == workload.TypeZDB && x.ID == "4711-1" })
		drifted := 0
		for _, x := range s.Workloads {
			if (x.ID == gone.ID || x.ID == r.ID || x.ID == log.Namespace) && x.Restored > 0 && x.Drift != nil {
				drifted++
			}
		}
		return orphan && drifted == 3 && s.Drifts[string(workload.TypeZDB)] >= 3
	})
	z.answers(seq, "OK", "NSDEL", "4711-1")
	z.answers(z.inside(at, "s3cr3t"), "for good", "GET", "kept")
	z.gone(gone)
}

// killZDB kills the process that a zdb container runs.
func (z *zdbs) killZDB(container string) {
	z.Helper()
	_, box := z.zdbRuns(container)
	if err := unix.Kill(int(box.PID), unix.SIGKILL); err != nil {
		z.Fatal(err)
	}
	z.Until(back, "another process runs", func() bool {
		now, ok := z.n.OwnContainer(container)
		return ok && now.PID != box.PID && now.State == node.ContainerRunning
	})
}

// endsWell deletes all, and checks that nothing of zdb remains.
func (z *zdbs) endsWell(all ...*workload.Reservation) {
	z.Helper()
	for _, r := range all {
		z.gone(r)
	}
	if s := z.n.Status(); len(s.ZDB) != 0 || len(s.OwnContainers) != 0 {
		z.Errorf("at the end there are %+v, %+v", s.ZDB, s.OwnContainers)
	}
	z.Until(back, "no orphan is known", func() bool { return len(z.n.Status().Orphans) == 0 })
	for name := range z.n.Subvolumes() {
		if strings.HasPrefix(name, "zdb-") {
			z.Errorf("volume %s is left", name)
		}
	}
}

// undisturbedByParts kills the node's processes one after the other.
func (z *zdbs) undisturbedByParts() {
	z.Helper()
	r, at := z.made(password("s3cr3t"))
	client := z.writes(z.inside(at, "s3cr3t"))
	for _, part := range []string{"zdb", "container", "storage", "provision"} {
		z.split.Parts[part].Kill()
		z.goesOn(client, "without "+part)
		z.split.StartPart(part)
		z.n.WaitReady()
		z.goesOn(client, "with "+part)
		z.zdbRuns(userZDB)
		z.inside(at, "s3cr3t")
	}
	client.end()
	z.killZDB(userZDB)
	z.Until(back, "its data is back", func() bool {
		conn, err := z.SelectZDB(z.Hub.Path(), nodetest.ZDBAddress(at), r.ID, "s3cr3t")
		if err != nil {
			return false
		}
		defer conn.Close()
		return strings.HasPrefix(ask(conn, "GET", "key 1"), "value ")
	})
	z.endsWell(r)
}

// TestARebootedNodeBringsItsNamespacesBack without its explorer. Then one expires and one is evicted.
func TestARebootedNodeBringsItsNamespacesBack(t *testing.T) {
	z := newZDBs(t)
	short := z.Expiring(25*time.Second, func(d time.Duration) *workload.Reservation { return z.Push(z.lasting(z.ZDB(z.n, nil), d)) })
	r, at := z.made(password("s3cr3t"))
	seq, log := z.made(func(d *workload.ZDB) { d.Mode = workload.ZDBSeq })
	z.answers(z.inside(at, "s3cr3t"), "kept", "SET", "kept", "for good")
	z.answers(z.inside(log, ""), firstID, "SET", "", "first")
	z.KillExplorer()
	z.n.Kill()
	z.n.Reboot()
	z.n.Start()
	z.n.WaitReady()
	for id, want := range map[string]workload.ZDBResult{userZDB: at, seqZDB: log} {
		server, _ := z.zdbRuns(id)
		if uint(server.Port) != want.Port {
			t.Errorf("%s has port %d, had %d", id, server.Port, want.Port)
		}
	}
	z.deployed(r, seq)
	z.answers(z.inside(at, "s3cr3t"), "for good", "GET", "kept")
	z.answers(z.inside(log, ""), "first", "GET", firstID)
	if got := z.Counters(z.n).ZDB; got < 2 {
		t.Errorf("%d namespaces are counted", got)
	}
	z.StartExplorer()
	z.Result(short, workload.StateExpired)
	z.evicted(r, at)
	z.gone(seq)
}

// evicted evicts a namespace: it is closed, and its data is kept for the grace period.
func (z *zdbs) evicted(r *workload.Reservation, at workload.ZDBResult) {
	z.Helper()
	z.n.Croftd("evict", r.ID, "--yes")
	z.Result(r, workload.StateEvicted)
	for _, wrong := range []string{"", "s3cr3t"} {
		if _, err := z.SelectZDB(z.Hub.Path(), nodetest.ZDBAddress(at), r.ID, wrong); err == nil {
			z.Errorf("an evicted one lets in who says %q", wrong)
		}
	}
	if got := ask(z.admin(userZDB), "NSINFO", r.ID); !strings.Contains(got, "entries: 1\n") {
		z.Errorf("its data is %q", got)
	}
	z.gone(r)
}
