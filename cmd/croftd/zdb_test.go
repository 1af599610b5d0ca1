package main_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/pkg/zdbspace"
)

func TestANamespaceFromReservationToDeletion(t *testing.T) {
	z := newZDBs(t)
	before := z.n.Left()
	z.namespaceLife(before)
	t.Run("its size is held to", func(t *testing.T) { z.fills() })
	z.nothing(before)
}

func TestAsProcessesANamespaceFromReservationToDeletion(t *testing.T) {
	z := newSplitZDBs(t)
	before := z.n.Left()
	z.namespaceLife(before)
	z.undisturbedByParts()
	z.nothing(before)
	z.leave()
	z.gone(z.net)
	z.split.StopAll()
}

// namespaceLife is the life cycle of several namespaces on one node.
func (z *zdbs) namespaceLife(before []string) {
	z.Helper()
	mine, at := z.made(password("s3cr3t"))
	if at.Namespace != mine.ID || at.IP != zdbIPv4 || at.Port != 9900 || at.Container != userZDB {
		z.Errorf("result is %+v", at)
	}
	shared, both := z.made(func(d *workload.ZDB) { d.PlainPassword, d.Public = "other words", true })
	open, free := z.made(nil)
	seq, log := z.made(func(d *workload.ZDB) { d.Mode = workload.ZDBSeq })
	if both.Container != at.Container || both.Port != at.Port || free.Port != at.Port || log.Container != seqZDB || log.Port != 9901 {
		z.Errorf("results are %+v, %+v, %+v, %+v", at, both, free, log)
	}
	z.shows(mine, at)
	for _, from := range []struct{ name, ns, ip string }{
		{"outside", z.Hub.Path(), zdbIPv4}, {"outside by IPv6", z.Hub.Path(), zdbIPv6}, {"in a user's network", z.shell.Path(), zdbIPv4},
		{"in a user's network by IPv6", z.shell.Path(), zdbIPv6},
	} {
		address := net.JoinHostPort(from.ip, fmt.Sprint(at.Port))
		for _, wrong := range []string{"", "s3cr3t ", "other words"} {
			if _, err := z.SelectZDB(from.ns, address, mine.ID, wrong); err == nil {
				z.Errorf("%s: it takes the password %q", from.name, wrong)
			}
		}
		conn, err := z.SelectZDB(from.ns, address, mine.ID, "s3cr3t")
		if err != nil {
			z.Errorf("%s: it doesn't take the right password: %v", from.name, err)
			continue
		}
		z.answers(conn, from.name, "SET", from.name, "value of "+from.name)
		z.answers(conn, "value of "+from.name, "GET", from.name)
	}
	z.publicOnes(both, free, log)
	z.refusesStrangers(at)
	z.closedBeside(at)
	z.theirs()
	for _, r := range []*workload.Reservation{shared, open} {
		z.gone(r)
		if server, ok := z.n.ZDBServer(userZDB); !ok || server.Drift != "" {
			z.Errorf("after %s has ended: %+v", r.ID, server)
		}
	}
	conn := z.inside(at, "s3cr3t")
	z.answers(conn, "value of outside", "GET", "outside")
	z.gone(mine)
	if _, still := z.n.ZDBServer(userZDB); still {
		z.Error("its zdb is still there")
	}
	z.free(at.Port)
	z.gone(seq)
	if got := z.n.Status().Counters.ZDB; got != 0 {
		z.Errorf("%d namespaces are counted at the end", got)
	}
	z.nothing(before)
}

// shows fails unless the node's status shows its zdbs.
func (z *zdbs) shows(mine *workload.Reservation, at workload.ZDBResult) {
	z.Helper()
	s := z.n.Status()
	if s.Counters.ZDB != 4 || len(s.ZDB) != 2 || len(s.Orphans) != 0 {
		z.Errorf("counters are %+v, zdbs %+v, orphans %v", s.Counters, s.ZDB, s.Orphans)
	}
	for _, w := range s.Workloads {
		if want := map[bool]string{true: "ssd0"}[w.Type == workload.TypeZDB]; w.Pool != want {
			z.Errorf("the pool of %s %s is %q, want %q", w.Type, w.ID, w.Pool, want)
		}
	}
	server, box := z.zdbRuns(at.Container)
	if server.IPv4 != zdbIPv4 || server.IPv6 != zdbIPv6 || uint(server.Port) != at.Port || server.Namespaces != 3 || server.Mode != workload.ZDBUser {
		z.Errorf("zdb is %+v", server)
	}
	if box.User != node.OwnUser || len(box.Volumes) != 1 || box.Volumes[0] != at.Container {
		z.Errorf("container is %+v", box)
	}
	mentions(z, "croftd status", z.n.Croftd("status"), at.Container, zdbIPv4+":9900", "["+zdbIPv6+"]:9901", mine.ID)
	// The promises for three namespaces of 1 GiB in one zdb and one in the other.
	want := 4*zdbspace.Bound(1<<30) + 2*(64<<20) + 2*(64<<20)
	if got := s.Storage.Pools[0].Reserved; got != want {
		z.Errorf("%d bytes are promised, want %d", got, want)
	}
}

// publicOnes checks a public namespace, one without a password, and one in sequential mode.
func (z *zdbs) publicOnes(public, free, log workload.ZDBResult) {
	z.Helper()
	reader := z.inside(public, "")
	z.refuses(reader, "read-only", "SET", "a", "1")
	writer := z.inside(public, "other words")
	z.answers(writer, "a", "SET", "a", "1")
	z.answers(reader, "1", "GET", "a")
	if _, err := z.SelectZDB(z.Hub.Path(), nodetest.ZDBAddress(public), public.Namespace, "wrong"); err == nil {
		z.Error("a public one takes a wrong password")
	}
	all := z.inside(free, "")
	z.answers(all, "a", "SET", "a", "2")
	z.answers(reader, "1", "GET", "a") // another namespace of the same zdb
	seq := z.inside(log, "")
	for i := range 3 {
		id, err := redis.Bytes(seq.Do("SET", "", fmt.Sprint("line ", i)))
		if err != nil || len(id) != 8 || binary.LittleEndian.Uint64(id) != uint64(i) {
			z.Errorf("entry %d gets the ID %x, %v", i, id, err)
			continue
		}
		z.answers(seq, fmt.Sprint("line ", i), "GET", id)
	}
}

// refusesStrangers fails if a client of the port has more than a client's rights.
func (z *zdbs) refusesStrangers(at workload.ZDBResult) {
	z.Helper()
	conn, err := z.DialZDB(z.Hub.Path(), nodetest.ZDBAddress(at))
	if err != nil {
		z.Fatal(err)
	}
	for _, c := range [][]any{
		{"NSNEW", "mine"}, {"NSDEL", at.Namespace}, {"NSSET", at.Namespace, "password", "*"}, {"NSSET", at.Namespace, "maxsize", "0"},
		{"NSSET", at.Namespace, "public", "1"}, {"AUTH", ""}, {"AUTH", "s3cr3t"}, {"AUTH", "admin"}, {"SET", "a", "b"},
		{"FLUSH"}, {"RELOAD", at.Namespace}, {"STOP"}, {"HOOKS"}, {"INDEX", "DIRTY", "RESET"}, {"MASTER", "127.0.0.1", "1"},
	} {
		z.refuses(conn, "", c[0].(string), c[1:]...)
	}
	z.answers(conn, "PONG", "PING")
	if _, err := z.SelectZDB(z.Hub.Path(), nodetest.ZDBAddress(at), at.Namespace, ""); err == nil {
		z.Error("it isn't private any more")
	}
}

// closedBeside fails if a user's network reaches ports of the node other than zdb's.
func (z *zdbs) closedBeside(at workload.ZDBResult) {
	z.Helper()
	for _, port := range []uint16{9899, 9964} {
		z.EchoIn(z.n.Namespace, port)
		for _, ip := range []string{zdbIPv4, zdbIPv6} {
			address := net.JoinHostPort(ip, fmt.Sprint(port))
			if err := z.ReachesFrom(z.Hub.Path(), address, 10*time.Second); err != nil {
				z.Errorf("the hub doesn't reach %s: this test shows nothing: %v", address, err)
			}
			if err := z.shell.Reaches(address, 500*time.Millisecond); err == nil {
				z.Errorf("a user's container reaches the node at %s", address)
			}
		}
	}
	// The zdb container itself is in no network.
	_, box := z.zdbRuns(at.Container)
	out, err := nodetest.Command(box.Namespace, "ip", "-o", "addr", "show", "scope", "global")
	if err != nil || len(bytes.TrimSpace(out)) != 0 {
		z.Errorf("zdb has the addresses %s (%v)", out, err)
	}
}

// theirs is another user's namespace in the same zdb, which only they can open.
func (z *zdbs) theirs() {
	z.Helper()
	other, err := sign.Generate()
	if err != nil {
		z.Fatal(err)
	}
	r := z.Push(z.ZDBOf(other, z.n, password("theirs")))
	at := z.ZDBResult(r)
	for _, wrong := range []string{"", "s3cr3t", "other words"} {
		if _, err := z.SelectZDB(z.shell.Path(), nodetest.ZDBAddress(at), r.ID, wrong); err == nil {
			z.Errorf("a stranger enters with %q", wrong)
		}
	}
	conn := z.inside(at, "theirs")
	z.answers(conn, "-nothing", "GET", "outside")
	if err := r.SignDeletion(workload.Deletion{Created: time.Now()}, other.Private()); err != nil {
		z.Fatal(err)
	}
	if err := z.Client.Delete(z.Context(), r.ID, *r.Deletion); err != nil {
		z.Fatal(err)
	}
	z.Result(r, workload.StateDeleted)
	if got := ask(conn, "GET", "a"); !strings.HasPrefix(got, "-") {
		z.Errorf("after its end it answers %q", got)
	}
}

// fills writes to a namespace until it is full, then checks that its entries can be read and deleted.
func (z *zdbs) fills() {
	z.Helper()
	r, at := z.made(nil)
	conn := z.inside(at, "")
	value := bytes.Repeat([]byte("0123456789abcdef"), 7<<16) // 7 MiB
	written, refused := 0, ""
	for i := range 200 {
		value[0] = byte(i)
		if got := ask(conn, "SET", fmt.Sprint("key ", i), value); got != fmt.Sprint("key ", i) {
			refused = got
			break
		}
		written += len(value)
	}
	if !strings.Contains(refused, "No space left on this namespace") || written > 1<<30 || written < 1<<30-len(value) {
		z.Errorf("after %d bytes it answers %q", written, refused)
	}
	z.answers(conn, "OK", "DEL", "key 0")
	z.answers(conn, "new", "SET", "new", value)
	if got, err := redis.Bytes(conn.Do("GET", "key 1")); err != nil || len(got) != len(value) {
		z.Errorf("what is in it is %d bytes long, %v", len(got), err)
	}
	volume, err := filepath.Glob(filepath.Join(z.n.RunDir(), "pools", "*", "volumes", userZDB))
	if err != nil || len(volume) != 1 {
		z.Errorf("its volumes are %q, %v", volume, err)
	}
	z.gone(r)
}
