package admin

import (
	"bufio"
	"errors"
	"fmt"
	"net"
	"reflect"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// scripted is a zdb that answers commands by their text, in turn when there are
// several answers, and keeps the commands. It answers others +OK.
type scripted struct {
	answers map[string][]string
	told    []string
	done    chan struct{}
}

// script connects to one.
func script(t *testing.T, answers map[string][]string) (Client, *scripted) {
	t.Helper()
	ours, theirs := net.Pipe()
	s := &scripted{answers: answers, done: make(chan struct{})}
	go s.serve(theirs)
	a := Client{redis.NewConn(newGuard(ours), 5*time.Second, 5*time.Second)}
	t.Cleanup(func() {
		a.conn.Close()
		<-s.done
	})
	return a, s
}

func (s *scripted) serve(conn net.Conn) {
	defer close(s.done)
	defer conn.Close()
	replies := make(chan string, 100)
	defer close(replies)
	go func() {
		for reply := range replies {
			_, _ = conn.Write([]byte(reply))
		}
	}()
	in := bufio.NewReader(conn)
	for {
		var n int
		if _, err := fmt.Fscanf(in, "*%d\r\n", &n); err != nil {
			return
		}
		words := make([]string, n)
		for i := range words {
			var size int
			if _, err := fmt.Fscanf(in, "$%d\r\n", &size); err != nil {
				return
			}
			raw := make([]byte, size+2)
			for at := 0; at < len(raw); {
				got, err := in.Read(raw[at:])
				if err != nil {
					return
				}
				at += got
			}
			words[i] = string(raw[:size])
		}
		text := strings.Join(words, " ")
		s.told = append(s.told, text)
		reply := "+OK\r\n"
		if all := s.answers[text]; len(all) > 0 {
			reply = all[0]
			if len(all) > 1 {
				s.answers[text] = all[1:]
			}
		}
		replies <- reply
	}
}

// infoReply is an answer to NSINFO.
func infoReply(n node.ZDBNamespace) string {
	yes := map[bool]string{true: "yes", false: "no"}
	mode := map[workload.ZDBMode]string{workload.ZDBUser: "userkey", workload.ZDBSeq: "sequential"}[n.Mode]
	text := fmt.Sprintf("name: %s\npublic: %s\npassword: %s\ndata_size_bytes: %d\ndata_limits_bytes: %d\nmode: %s\n", n.Name, yes[n.Public], yes[n.Protected], n.Used, n.Size, mode)
	return "$" + strconv.Itoa(len(text)) + "\r\n" + text + "\r\n"
}

const missing = "-Namespace not found\r\n"

// TestCreate has the commands sent for an existing and a wanted namespace.
func TestCreate(t *testing.T) {
	at := func(size uint64, public, protected bool) node.ZDBNamespace {
		return node.ZDBNamespace{Name: "5-1", Mode: workload.ZDBUser, Size: size, Public: public, Protected: protected}
	}
	want := func(size uint64, public bool, password string) node.ZDBNamespaceSpec {
		return node.ZDBNamespaceSpec{Name: "5-1", Size: size, Public: public, Password: password}
	}
	const (
		made     = "NSNEW 5-1"
		password = "NSSET 5-1 password hush"
		cleared  = "NSSET 5-1 password *"
		public   = "NSSET 5-1 public 1"
		private  = "NSSET 5-1 public 0"
		size     = "NSSET 5-1 maxsize 10"
	)
	for _, c := range []struct {
		name string
		have node.ZDBNamespace
		want node.ZDBNamespaceSpec
		told []string
	}{
		{"a new one", node.ZDBNamespace{}, want(10, false, ""), []string{made, private, size}},
		{"a new one with a password", node.ZDBNamespace{}, want(10, true, "hush"), []string{made, password, public, size}},
		{"the same", at(10, true, false), want(10, true, ""), nil},
		{"the same with a password, which can't be seen", at(10, true, true), want(10, true, "hush"), []string{password}},
		{"another size", at(20, false, false), want(10, false, ""), []string{size}},
		{"public", at(10, false, false), want(10, true, ""), []string{public}},
		{"not public", at(10, true, false), want(10, false, ""), []string{private}},
		{"without its password", at(10, false, true), want(10, false, ""), []string{cleared}},
		{"all", at(20, true, false), want(10, false, "hush"), []string{password, private, size}},
	} {
		after := infoReply(at(10, c.want.Public, c.want.Password != ""))
		before := infoReply(c.have)
		if c.have.Name == "" {
			before = missing
		}
		a, zdb := script(t, map[string][]string{"NSINFO 5-1": {before, after}})
		got, err := a.Create(node.ZDBServerSpec{Mode: workload.ZDBUser, Data: t.TempDir()}, c.want)
		if err != nil || got.Size != 10 {
			t.Errorf("%s: %+v, %v", c.name, got, err)
		}
		told := append(append([]string{"NSINFO 5-1"}, c.told...), "NSINFO 5-1")
		if !reflect.DeepEqual(zdb.told, told) {
			t.Errorf("%s: it was told %q, want %q", c.name, zdb.told, told)
		}
	}
}

func TestFailingCreate(t *testing.T) {
	good := node.ZDBNamespace{Name: "5-1", Mode: workload.ZDBUser, Size: 10, Protected: true}
	seq := good
	seq.Mode = workload.ZDBSeq
	other := good
	other.Size = 11
	const damaged = "-Namespace is damaged, see the log of the server\r\n"
	spec := node.ZDBNamespaceSpec{Name: "5-1", Size: 10, Password: "hush"}
	for _, c := range []struct {
		name    string
		answers map[string][]string
		kind    node.Kind
		last    string
	}{
		{"another mode", map[string][]string{"NSINFO 5-1": {infoReply(seq)}}, node.Exist, "NSINFO 5-1"},
		{"damaged", map[string][]string{"NSINFO 5-1": {damaged}}, node.Internal, "NSINFO 5-1"},
		{"made by another call meanwhile", map[string][]string{"NSINFO 5-1": {missing, infoReply(good)}, "NSNEW 5-1": {"-This namespace is not available\r\n"}}, "", "NSINFO 5-1"},
		{"not made", map[string][]string{"NSINFO 5-1": {missing}, "NSNEW 5-1": {"-Internal Error\r\n"}}, node.Internal, "NSSET 5-1 maxsize 10"},
		{"made, but its password is refused", map[string][]string{"NSINFO 5-1": {missing}, "NSSET 5-1 password hush": {"-Argument too long\r\n"}}, node.Invalid, "NSDEL 5-1"},
		{"made, but its size is refused", map[string][]string{"NSINFO 5-1": {missing}, "NSSET 5-1 maxsize 10": {"-Internal Error\r\n"}}, node.Internal, "NSDEL 5-1"},
		{"there, and its size is refused", map[string][]string{"NSINFO 5-1": {infoReply(other)}, "NSSET 5-1 maxsize 10": {"-Permission denied\r\n"}}, node.Refused, "NSSET 5-1 maxsize 10"},
		{"made by another call, and refused", map[string][]string{"NSINFO 5-1": {missing}, "NSNEW 5-1": {"-This namespace is not available\r\n"}, "NSSET 5-1 public 0": {"-Permission denied\r\n"}}, node.Refused, "NSSET 5-1 maxsize 10"},
		{"taken, but nothing has changed", map[string][]string{"NSINFO 5-1": {infoReply(other)}}, node.Internal, "NSINFO 5-1"},
	} {
		a, zdb := script(t, c.answers)
		_, err := a.Create(node.ZDBServerSpec{Mode: workload.ZDBUser, Data: t.TempDir()}, spec)
		if node.KindOf(err) != c.kind || err != nil && strings.Contains(err.Error(), "hush") {
			t.Errorf("%s: %v (%s), want %s", c.name, err, node.KindOf(err), c.kind)
		}
		if last := zdb.told[len(zdb.told)-1]; last != c.last {
			t.Errorf("%s: it was told %q last, want %q", c.name, zdb.told, c.last)
		}
	}
}

// TestListDamaged: namespaces without readable details are listed all the same, those
// of no reservation aren't, and a failing zdb isn't an empty list.
func TestListDamaged(t *testing.T) {
	names := func(all ...string) string {
		out := fmt.Sprintf("*%d\r\n", len(all))
		for _, n := range all {
			out += fmt.Sprintf("$%d\r\n%s\r\n", len(n), n)
		}
		return out
	}
	good := node.ZDBNamespace{Name: "5-1", Mode: workload.ZDBUser, Size: 10}
	answers := map[string][]string{
		"NSLIST":     {names("default", "5-1", "6-1", "7-1", "../x", "my own", "")},
		"NSINFO 5-1": {infoReply(good)}, "NSINFO 6-1": {"-Namespace is damaged, see the log of the server\r\n"}, "NSINFO 7-1": {missing},
	}
	a, _ := script(t, answers)
	got, err := a.List(node.ZDBServerSpec{Container: "zdb", Data: t.TempDir()})
	good.Container = "zdb"
	if want := []node.ZDBNamespace{good, {Container: "zdb", Name: "6-1"}}; err != nil || !reflect.DeepEqual(got, want) {
		t.Errorf("%+v, %v, want %+v", got, err, want)
	}
	answers["NSINFO 6-1"] = []string{"?\r\n"}
	a, _ = script(t, answers)
	if got, err := a.List(node.ZDBServerSpec{Data: t.TempDir()}); !errors.Is(err, node.Transient) || got != nil {
		t.Errorf("%+v, %v", got, err)
	}
	a, _ = script(t, map[string][]string{"NSLIST": {"-Command not supported\r\n"}})
	if got, err := a.List(node.ZDBServerSpec{Data: t.TempDir()}); !errors.Is(err, node.Internal) || got != nil {
		t.Errorf("%+v, %v", got, err)
	}
}
