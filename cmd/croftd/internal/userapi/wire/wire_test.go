package wire_test

import (
	"bytes"
	"net"
	"os"
	"reflect"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/cmd/croftd/internal/userapi/wire"
)

func sample() wire.Asked {
	return wire.Asked{
		Method: "POST", Target: "/v1/workloads/7-1/exec?x=1",
		Header: map[string][]string{"Croft-User": {"a", "b"}, "Croft-Nonce": {"n"}, "Upgrade": {"croft-stream"}},
		State:  wire.BodyWhole, Body: []byte("{}"),
	}
}

func encode(t testing.TB, a wire.Asked) []byte {
	t.Helper()
	raw, ok := a.Encode()
	if !ok {
		t.Fatal("it is too large")
	}
	return raw
}

// Only the parts of a request that the agent uses are transferred.
func TestARequestComesThrough(t *testing.T) {
	a := sample()
	raw := encode(t, a)
	b, err := wire.Decode(raw)
	if err != nil || !reflect.DeepEqual(a, b) {
		t.Errorf("got %+v, %v", b, err)
	}
	a.Header["Cookie"] = []string{"x"}
	if !bytes.Equal(raw, encode(t, a)) {
		t.Error("another header comes through")
	}
}

func TestMalformedRequests(t *testing.T) {
	raw := encode(t, sample())
	for n := range raw {
		if _, err := wire.Decode(raw[:n]); err == nil {
			t.Fatalf("the first %d bytes are taken", n)
		}
	}
	if _, err := wire.Decode(append(raw, 0)); err == nil {
		t.Error("something that follows is taken")
	}
	a := sample()
	a.State = 9
	if _, err := wire.Decode(encode(t, a)); err == nil {
		t.Error("a body of an unknown state is taken")
	}
	a = sample()
	a.Target = strings.Repeat("x", wire.MaxRequest)
	if _, ok := a.Encode(); ok {
		t.Error("a huge target is sent")
	}
	a = sample()
	a.Body = make([]byte, wire.MaxBody+1)
	if _, err := wire.Decode(encode(t, a)); err == nil {
		t.Error("a huge body is taken")
	}
}

func TestFramesAreBounded(t *testing.T) {
	for _, c := range []struct {
		kind wire.Kind
		n    int
		door bool
		ok   bool
	}{
		{wire.Connection, wire.BindingSize, true, false}, {wire.Connection, wire.BindingSize + 1, true, true}, {wire.Connection, wire.BindingSize + 65, true, false},
		{wire.Request, 0, true, false}, {wire.Request, wire.MaxRequest, true, true}, {wire.Request, wire.MaxRequest + 1, true, false},
		{wire.Stayed, 1, true, true}, {wire.Stayed, 2, true, false}, {wire.Body, 1, true, false}, {wire.Upgrade, 0, true, false},
		{wire.Body, wire.MaxPart, false, true}, {wire.Body, wire.MaxPart + 1, false, false}, {wire.Request, 5, false, false},
		{wire.End, 0, false, true}, {wire.End, 1, false, false}, {0, 0, true, false}, {255, 0, false, false},
	} {
		var b bytes.Buffer
		if err := wire.WriteFrame(&b, c.kind, make([]byte, c.n)); err != nil {
			t.Fatal(err)
		}
		kind, n, err := wire.ReadHead(&b, c.door)
		if (err == nil) != c.ok || c.ok && (kind != c.kind || int(n) != c.n) {
			t.Errorf("kind %c with %d bytes (of the door: %t): %v", c.kind, c.n, c.door, err)
		}
	}
}

// A descriptor can be sent to the door, and none to the agent.
func TestDescriptorsGoOneWay(t *testing.T) {
	conn, theirs, err := wire.Pair(unix.SOCK_SEQPACKET)
	if err != nil {
		t.Fatal(err)
	}
	agent := wire.ControlOf(conn)
	defer agent.Close()
	door, err := wire.NewControl(theirs)
	if err != nil {
		t.Fatal(err)
	}
	defer door.Close()
	ours, file, err := wire.Pair(unix.SOCK_STREAM)
	if err != nil {
		t.Fatal(err)
	}
	defer ours.Close()
	defer file.Close()
	if err := agent.Send(wire.Message{Kind: wire.Link, Number: 7, File: file}); err != nil {
		t.Fatal(err)
	}
	m, err := door.FromAgent()
	if err != nil || m.Kind != wire.Link || m.Number != 7 || m.File == nil {
		t.Fatalf("got %+v, %v", m, err)
	}
	var link net.Conn
	if link, err = wire.Socket(m.File); err != nil {
		t.Fatal(err)
	}
	defer link.Close()
	before := len(opened(t))
	if err := door.Send(wire.Message{Kind: wire.Link, File: file}); err != nil {
		t.Fatal(err)
	}
	if _, err := agent.FromDoor(); err == nil || !strings.Contains(err.Error(), "it is larger than allowed") {
		t.Errorf("a descriptor of the door's: %v", err)
	}
	if n := len(opened(t)); n != before {
		t.Errorf("%d files are open instead of %d", n, before)
	}
}

func opened(t *testing.T) []os.DirEntry {
	t.Helper()
	out, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// A decoded request can be encoded, and decodes to the same.
func FuzzDecode(f *testing.F) {
	f.Add(encode(f, sample()))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, raw []byte) {
		a, err := wire.Decode(raw)
		if err != nil {
			return
		}
		if again, ok := a.Encode(); !ok || !bytes.Equal(again, raw) {
			t.Errorf("%x becomes %x", raw, again)
		}
	})
}
