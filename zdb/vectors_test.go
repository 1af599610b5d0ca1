package zdb_test

import (
	"bufio"
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

// step is one line of a transcript; see testdata/vectors/README.md.
type step struct {
	Step      int               `json:"step"`
	Conn      string            `json:"conn"`
	Send      []json.RawMessage `json:"send"`
	SendRaw   *string           `json:"send_raw"`
	RecvHex   string            `json:"recv_hex"`
	RecvLen   int               `json:"recv_len"`
	RecvSum   string            `json:"recv_sha256"`
	ExtraHex  string            `json:"extra_hex"`
	Closed    bool              `json:"closed"`
	Pending   bool              `json:"pending"`
	Op        string            `json:"op"`
	Volatile  []string          `json:"volatile"`
	Imitate   *bool             `json:"imitate"`
	Note      string            `json:"note"`
	suite, in string
}

type suite struct {
	Suite string   `json:"suite"`
	File  string   `json:"file"`
	Args  []string `json:"server_args"`
	Build string   `json:"build"`
}

// tally is what became of the steps.
type tally struct{ exact, volatile, deviating, notImitated int }

func (t *tally) add(o tally) {
	t.exact += o.exact
	t.volatile += o.volatile
	t.deviating += o.deviating
	t.notImitated += o.notImitated
}

func (t tally) String() string {
	return fmt.Sprintf("%d steps equal, %d volatile ones alike, %d not imitated, %d other deviations", t.exact, t.volatile, t.notImitated, t.deviating)
}

const patience = time.Minute

// running is a server that transcripts are played to.
type running interface {
	// start starts it, again on the same folders, and returns its address.
	start(t *testing.T) string
	// stop ends it as SIGTERM would.
	stop(t *testing.T)
	// ended says that it has ended by itself.
	ended(t *testing.T)
}

// play plays all suites of a version to servers that open makes of their
// arguments, in a folder of their own.
func play(t *testing.T, version string, open func(t *testing.T, s suite, version string) running) tally {
	t.Helper()
	folder, err := filepath.Abs(filepath.Join("testdata", "vectors", version))
	if err != nil {
		t.Fatal(err)
	}
	var suites []suite
	read(t, filepath.Join(folder, "suites.json"), &suites)
	var all tally
	for _, s := range suites {
		t.Run(version+"/"+s.Suite, func(t *testing.T) {
			steps := readSteps(t, folder, version, s)
			t.Chdir(t.TempDir())
			if err := os.WriteFile("hook.sh", []byte("#!/bin/sh\nexit 0\n"), 0o755); err != nil {
				t.Fatal(err)
			}
			p := player{server: open(t, s, version), conns: map[string]*peer{}}
			p.address = p.server.start(t)
			p.probe(t)
			for _, st := range steps {
				p.step(t, st)
			}
			p.closeAll()
			p.server.stop(t)
			t.Log(p.tally)
			all.add(p.tally)
		})
	}
	t.Log(version, "in all:", all)
	return all
}

func read(t *testing.T, path string, into any) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err == nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		t.Fatal(err)
	}
}

func readSteps(t *testing.T, folder, version string, s suite) []step {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(folder, s.File))
	if err != nil {
		t.Fatal(err)
	}
	var out []step
	for line := range bytes.Lines(data) {
		st := step{suite: s.Suite, in: version}
		if err := json.Unmarshal(line, &st); err != nil {
			t.Fatal(err)
		}
		out = append(out, st)
	}
	return out
}

// peer is one connection of a transcript.
type peer struct {
	net.Conn
	r         *bufio.Reader
	challenge string
	// sent and received are bytes of all connections.
	sent, received *int
}

func (c *peer) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	*c.sent += n
	return n, err
}

type player struct {
	server  running
	address string
	conns   map[string]*peer
	tally   tally
	// sent and received are bytes, since the server was started.
	sent, received int
}

// probe is the connection that the recorder made to see that the server is up.
func (p *player) probe(t *testing.T) {
	t.Helper()
	c := p.conn(t, "probe")
	c.Close()
	delete(p.conns, "probe")
}

func (p *player) conn(t *testing.T, label string) *peer {
	t.Helper()
	if c := p.conns[label]; c != nil {
		return c
	}
	raw, err := net.DialTimeout("tcp", p.address, patience)
	if err != nil {
		t.Fatal(err)
	}
	c := &peer{Conn: raw, r: bufio.NewReaderSize(raw, 1<<20), sent: &p.sent, received: &p.received}
	p.conns[label] = c
	return c
}

func (p *player) closeAll() {
	for _, c := range p.conns {
		c.Close()
	}
	p.conns = map[string]*peer{}
}

func (p *player) step(t *testing.T, st step) {
	t.Helper()
	switch st.Op {
	case "restart":
		p.closeAll()
		p.server.stop(t)
		p.address = p.server.start(t)
		p.sent, p.received = 0, 0
		return
	case "note":
		if strings.Contains(st.Note, "exit code after STOP: 0") {
			p.server.ended(t)
		}
		return
	case "close":
		p.conns[st.Conn].Close()
		delete(p.conns, st.Conn)
		return
	}
	c := p.conn(t, st.Conn)
	dev, deviates := deviations[st.in][at{st.suite, st.Step}]
	if dev.whole != "" {
		p.abbreviated(t, c, st)
		st.Send[0] = json.RawMessage(`"` + dev.whole + `"`)
	}
	request := st.request(t, c)
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write(request); err != nil && !st.Closed {
		t.Fatalf("step %d: %v", st.Step, err)
	}
	if st.Pending {
		p.pending(t, c, st)
		return
	}
	got, closed := c.reply(t, st, dev.closed || st.Closed)
	if strings.HasPrefix(string(got), "+") && len(got) == 1+16+2 {
		c.challenge = string(got[1:17])
	}
	if want := st.Closed || dev.closed; closed != want {
		t.Errorf("step %d: the connection is closed: %v, want %v", st.Step, closed, want)
	}
	p.judge(t, st, dev, deviates, got)
	p.received += len(got)
}

// judge compares a reply, and counts how.
func (p *player) judge(t *testing.T, st step, dev deviation, deviates bool, got []byte) {
	t.Helper()
	var err error
	ignored := st.Imitate != nil && !*st.Imitate
	switch {
	case ignored:
		p.tally.notImitated++
	case deviates:
		p.tally.deviating++
	case len(st.Volatile) > 0:
		p.tally.volatile++
	default:
		p.tally.exact++
	}
	switch {
	case dev.reply != nil:
		if string(got) != *dev.reply {
			err = fmt.Errorf("got %q, want %q, on purpose: %s", clip(got), *dev.reply, dev.why)
		}
	case dev.lines != nil:
		err = p.alike(t, st, got, dev.lines)
	case ignored:
		err = fmt.Errorf("got %q for what isn't imitated: deviations say nothing of it", clip(got))
	case len(st.Volatile) > 0:
		err = p.alike(t, st, got, nil)
	default:
		err = st.equal(got)
	}
	if err != nil {
		t.Errorf("step %d, %s: %v", st.Step, st.Send, err)
	}
}

// abbreviated sees that the short name of a command isn't known.
func (p *player) abbreviated(t *testing.T, c *peer, st step) {
	t.Helper()
	_ = c.SetDeadline(time.Now().Add(patience))
	if _, err := c.Write(st.request(t, c)); err != nil {
		t.Fatal(err)
	}
	got, _ := c.reply(t, st, false)
	if string(got) != "-Command not supported\r\n" {
		t.Errorf("step %d: a shortened name is answered %q", st.Step, got)
	}
	p.received += len(got)
}

// pending sees that no reply comes at once.
func (p *player) pending(t *testing.T, c *peer, st step) {
	t.Helper()
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	if b, err := c.r.Peek(1); err == nil {
		t.Errorf("step %d: a reply came that begins with %q, want none yet", st.Step, b)
	}
	p.tally.exact++
}

// request is the request to send.
func (st step) request(t *testing.T, c *peer) []byte {
	t.Helper()
	if st.SendRaw != nil {
		return unhex(t, *st.SendRaw)
	}
	if st.Send == nil {
		return nil
	}
	out := fmt.Appendf(nil, "*%d\r\n", len(st.Send))
	for _, raw := range st.Send {
		arg := argument(t, raw, c)
		out = fmt.Appendf(out, "$%d\r\n", len(arg))
		out = append(append(out, arg...), "\r\n"...)
	}
	return out
}

func argument(t *testing.T, raw json.RawMessage, c *peer) []byte {
	t.Helper()
	var text string
	if json.Unmarshal(raw, &text) == nil {
		return []byte(text)
	}
	var special struct {
		Hex    *string `json:"hex"`
		Repeat *string `json:"repeat"`
		Count  int     `json:"count"`
		Secret *string `json:"challenge_sha1"`
	}
	if err := json.Unmarshal(raw, &special); err != nil {
		t.Fatal(err)
	}
	switch {
	case special.Hex != nil:
		return unhex(t, *special.Hex)
	case special.Repeat != nil:
		return bytes.Repeat(unhex(t, *special.Repeat), special.Count)
	case special.Secret != nil:
		sum := sha1.Sum([]byte(c.challenge + ":" + *special.Secret))
		return []byte(hex.EncodeToString(sum[:]))
	}
	t.Fatalf("argument %s isn't known", raw)
	return nil
}

func unhex(t *testing.T, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(s)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// recorded is the reply of the transcript.
func (st step) recorded(t *testing.T) string {
	t.Helper()
	return string(unhex(t, st.RecvHex)) + string(unhex(t, st.ExtraHex))
}

// reply reads one value, and what else was recorded with it, and sees whether the
// connection is closed after it where that is asked.
func (c *peer) reply(t *testing.T, st step, mayClose bool) (got []byte, closed bool) {
	t.Helper()
	got, err := value(c.r)
	if err != nil && !mayClose {
		t.Fatalf("step %d: no reply: %v", st.Step, err)
	}
	if err != nil {
		return nil, true
	}
	extra := make([]byte, len(st.ExtraHex)/2)
	if _, err := io.ReadFull(c.r, extra); err != nil {
		t.Fatalf("step %d: %v", st.Step, err)
	}
	got = append(got, extra...)
	if mayClose {
		_, err := c.r.ReadByte()
		return got, err != nil
	}
	if c.r.Buffered() > 0 {
		more, _ := c.r.Peek(c.r.Buffered())
		t.Errorf("step %d: more came than one value: %q", st.Step, clip(more))
	}
	return got, false
}

// value reads one value as it is.
func value(r *bufio.Reader) ([]byte, error) {
	line, err := r.ReadBytes('\n')
	if err != nil {
		return nil, err
	}
	var n int
	switch line[0] {
	case '$':
		if _, err := fmt.Sscanf(string(line[1:]), "%d", &n); err != nil || n < 0 {
			return line, err
		}
		body := make([]byte, n+2)
		_, err := io.ReadFull(r, body)
		return append(line, body...), err
	case '*':
		if _, err := fmt.Sscanf(string(line[1:]), "%d", &n); err != nil {
			return nil, err
		}
		for range n {
			v, err := value(r)
			if err != nil {
				return nil, err
			}
			line = append(line, v...)
		}
	}
	return line, nil
}

// equal compares byte for byte.
func (st step) equal(got []byte) error {
	if st.RecvLen > 0 {
		if sum := sha256.Sum256(got); len(got) != st.RecvLen || hex.EncodeToString(sum[:]) != st.RecvSum {
			return fmt.Errorf("got %d bytes, %q, want %d with sum %s", len(got), clip(got), st.RecvLen, st.RecvSum)
		}
		return nil
	}
	if want := st.RecvHex + st.ExtraHex; hex.EncodeToString(got) != want {
		b, _ := hex.DecodeString(want)
		return fmt.Errorf("got\n%q, want\n%q", clip(got), clip(b))
	}
	return nil
}

func clip(b []byte) []byte { return b[:min(len(b), 1500)] }
