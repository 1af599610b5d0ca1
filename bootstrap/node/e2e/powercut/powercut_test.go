package powercut_test

import (
	"bytes"
	"encoding/binary"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"path/filepath"
	"testing"

	"github.com/croft-edge/croft/bootstrap/node/e2e/powercut"
)

const size = 1 << 20

// client is an NBD client as small as QEMU's is large.
type client struct {
	t    *testing.T
	conn net.Conn
}

type disk struct {
	*powercut.Disk
	image, socket string
}

func serve(t *testing.T) disk {
	t.Helper()
	dir := t.TempDir()
	d := disk{image: filepath.Join(dir, "image"), socket: filepath.Join(dir, "s")}
	if err := os.WriteFile(d.image, make([]byte, size), 0o600); err != nil {
		t.Fatal(err)
	}
	var err error
	if d.Disk, err = powercut.Serve(d.image, d.socket); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}

func (d disk) dial(t *testing.T) *client {
	t.Helper()
	conn, err := net.Dial("unix", d.socket)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	c := &client{t, conn}
	c.read(18)
	c.send(uint32(3), []byte("IHAVEOPT"), uint32(8), uint32(0)) // structured replies: refused
	if kind := binary.BigEndian.Uint32(c.read(20)[12:]); kind != 1<<31+1 {
		t.Fatalf("an unknown option is answered by %x", kind)
	}
	c.send([]byte("IHAVEOPT"), uint32(7), uint32(6), make([]byte, 6))
	if got := binary.BigEndian.Uint64(c.read(20 + 12)[22:]); got != size {
		t.Fatalf("the disk has %d bytes, want %d", got, size)
	}
	c.read(20 + 14 + 20)
	return c
}

func (c *client) send(values ...any) {
	c.t.Helper()
	var out []byte
	for _, v := range values {
		out, _ = binary.Append(out, binary.BigEndian, v)
	}
	if _, err := c.conn.Write(out); err != nil {
		c.t.Fatal(err)
	}
}

func (c *client) read(n int) []byte {
	c.t.Helper()
	out := make([]byte, n)
	if _, err := io.ReadFull(c.conn, out); err != nil {
		c.t.Fatal(err)
	}
	return out
}

// ask sends a request and returns the answer's error number.
func (c *client) ask(kind uint16, flags uint16, at, n int, data []byte) uint32 {
	c.t.Helper()
	c.send(uint32(0x25609513), flags, kind, uint64(7), uint64(at), uint32(n), data)
	return binary.BigEndian.Uint32(c.read(16)[4:])
}

func (c *client) must(kind uint16, flags uint16, at, n int, data []byte) {
	c.t.Helper()
	if code := c.ask(kind, flags, at, n, data); code != 0 {
		c.t.Fatalf("request %d at %d of %d bytes fails with %d", kind, at, n, code)
	}
}

const (
	read, write, flush, trim = 0, 1, 3, 4
	through                  = 1
)

func pattern(b byte, sectors int) []byte { return bytes.Repeat([]byte{b}, sectors*powercut.Sector) }

func content(t *testing.T, d disk) []byte {
	t.Helper()
	out, err := os.ReadFile(d.image)
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestCut cuts the power with many seeds: what was flushed stays, and of the rest each sector is old or new as a whole.
func TestCut(t *testing.T) {
	d := serve(t)
	var lost, kept int
	for seed := range uint64(20) {
		c := d.dial(t)
		c.must(write, 0, 0, 1024*512, pattern('a', 1024))
		c.must(flush, 0, 0, 0, nil)
		c.must(write, through, 600*512, 512, pattern('f', 1))
		c.must(write, 0, 100*512, 200*512, pattern('b', 200))
		c.must(read, 0, 100*512, 512, nil)
		if got := c.read(512); !bytes.Equal(got, pattern('b', 1)) {
			t.Fatal("what was written isn't read back")
		}
		if got := content(t, d)[100*512]; got != 'a' {
			t.Fatalf("the image has %q before any flush", got)
		}
		if n := d.Unflushed(); n != 200 {
			t.Fatalf("%d sectors are unflushed, want 200", n)
		}
		loss, err := d.Cut(rand.New(rand.NewPCG(seed, 0)))
		if err != nil {
			t.Fatal(err)
		}
		if loss.Lost+loss.Kept != 200 {
			t.Fatalf("the cut lost %+v, want 200 in all", loss)
		}
		lost, kept = lost+loss.Lost, kept+loss.Kept
		checkSectors(t, content(t, d), loss)
		if _, err := c.conn.Read(make([]byte, 1)); err == nil {
			t.Fatal("the connection outlives the power cut")
		}
	}
	if lost == 0 || kept == 0 {
		t.Errorf("all cuts together lost %d sectors and kept %d", lost, kept)
	}
}

// checkSectors finds all sectors whole, and as many new ones as the cut has kept.
func checkSectors(t *testing.T, image []byte, loss powercut.Loss) {
	t.Helper()
	found := map[byte]int{}
	for n := range 1024 {
		sector := image[n*512 : (n+1)*512]
		if !bytes.Equal(sector, pattern(sector[0], 1)) {
			t.Fatalf("sector %d is torn", n)
		}
		found[sector[0]]++
	}
	if found['b'] != loss.Kept || found['f'] != 1 || found['a'] != 1024-1-loss.Kept {
		t.Errorf("the image has the sectors %v after a loss of %+v", found, loss)
	}
}

func TestTrimAndFaults(t *testing.T) {
	d := serve(t)
	c := d.dial(t)
	c.must(write, 0, 0, 4*512, pattern('a', 4))
	c.must(trim, 0, 512, 512, nil)
	c.must(read, 0, 0, 4*512, nil)
	if got := c.read(4 * 512); got[0] != 'a' || got[512] != 0 || got[1024] != 'a' {
		t.Errorf("after a trim of the second sector they begin with %q", []byte{got[0], got[512], got[1024]})
	}
	for name, code := range map[string]uint32{
		"behind the end": c.ask(write, 0, size, 512, pattern('a', 1)), "half a sector": c.ask(trim, 0, 1, 512, nil), "unknown": c.ask(99, 0, 0, 0, nil),
	} {
		if code != 22 {
			t.Errorf("%s: the error is %d, want 22", name, code)
		}
	}
	if err := d.Sync(); err != nil {
		t.Fatal(err)
	}
	if got := content(t, d); got[0] != 'a' || d.Unflushed() != 0 {
		t.Errorf("after a sync the image begins with %q, and %d sectors are unflushed", got[0], d.Unflushed())
	}
}

func TestServeRefusesOddImages(t *testing.T) {
	dir := t.TempDir()
	image := filepath.Join(dir, "image")
	if err := os.WriteFile(image, make([]byte, 700), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := powercut.Serve(image, filepath.Join(dir, "s")); err == nil {
		t.Error("an image of 700 bytes is served")
	}
}
