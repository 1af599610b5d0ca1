// Package powercut is a disk for tests of power cuts. It serves a raw image by NBD, the network block device, with a write cache as
// disks have one: what a guest has written but not flushed is in memory only, and Cut loses any part of it, as a disk does without power.
// Killing QEMU with an image file doesn't do that: what the guest wrote is in the host's page cache, flushed or not, and nothing is lost.
package powercut

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// Sector is what is written as a whole or not at all, in bytes.
	Sector = 512
	// mostCached bounds the cache in sectors; beyond that any sectors go to the image, as in a disk.
	mostCached = 256 << 20 / Sector
)

// Disk is a disk that loses power. It is safe for concurrent use.
type Disk struct {
	image    *os.File
	size     int64
	listener net.Listener
	serving  sync.WaitGroup

	mu    sync.Mutex
	conns map[net.Conn]bool
	// cache are the sectors that were written since the last flush, by their numbers.
	cache map[int64]*[Sector]byte
}

// Loss is what a power cut did.
type Loss struct {
	// Kept and Lost are unflushed sectors.
	Kept, Lost int
}

// Serve serves the image of that path, whose size is a multiple of a sector, on a unix socket, until Close.
func Serve(image, socket string) (*Disk, error) {
	f, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return nil, fmt.Errorf("cannot serve the disk %s: %w", image, err)
	}
	size, err := f.Seek(0, io.SeekEnd)
	if err == nil && size%Sector != 0 {
		err = fmt.Errorf("its size is %d, must be a multiple of %d", size, Sector)
	}
	var l net.Listener
	if err == nil {
		l, err = new(net.ListenConfig).Listen(context.Background(), "unix", socket)
	}
	if err != nil {
		f.Close()
		return nil, fmt.Errorf("cannot serve the disk %s: %w", image, err)
	}
	d := &Disk{image: f, size: size, listener: l, conns: map[net.Conn]bool{}, cache: map[int64]*[Sector]byte{}}
	d.serving.Go(d.accept)
	return d, nil
}

func (d *Disk) accept() {
	for {
		conn, err := d.listener.Accept()
		if err != nil {
			return
		}
		d.mu.Lock()
		d.conns[conn] = true
		d.mu.Unlock()
		d.serving.Go(func() {
			// How a connection ends is QEMU's to tell.
			_ = d.serve(conn)
			d.mu.Lock()
			delete(d.conns, conn)
			d.mu.Unlock()
			conn.Close()
		})
	}
}

// Cut cuts the power: connections end, and of the unflushed sectors a random part reaches the image. The disk can be used again.
func (d *Disk) Cut(random *rand.Rand) (Loss, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for conn := range d.conns {
		conn.Close()
	}
	var loss Loss
	var failed error
	// Any share may be lost: sometimes nearly all, sometimes hardly any.
	keep := random.Float64()
	// In the order of their numbers, so that a seed has one outcome.
	for _, n := range d.sorted() {
		if random.Float64() >= keep {
			loss.Lost++
			continue
		}
		loss.Kept++
		if err := d.store(n); err != nil {
			failed = err
		}
	}
	clear(d.cache)
	return loss, failed
}

// Unflushed is how many sectors a power cut might lose now.
func (d *Disk) Unflushed() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.cache)
}

// Sync writes the cache to the image.
func (d *Disk) Sync() error { return d.flush() }

// Close ends the disk without a loss. It returns the first failure.
func (d *Disk) Close() error {
	d.listener.Close()
	d.mu.Lock()
	for conn := range d.conns {
		conn.Close()
	}
	d.mu.Unlock()
	d.serving.Wait()
	err := d.flush()
	return cmp.Or(err, d.image.Close())
}

func (d *Disk) sorted() []int64 {
	out := make([]int64, 0, len(d.cache))
	for n := range d.cache {
		out = append(out, n)
	}
	slices.Sort(out)
	return out
}

// store writes a cached sector to the image; the caller holds the lock.
func (d *Disk) store(n int64) error {
	_, err := d.image.WriteAt(d.cache[n][:], n*Sector)
	return err
}

// flush writes all cached sectors to the image.
func (d *Disk) flush() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	for n := range d.cache {
		if err := d.store(n); err != nil {
			return err
		}
		delete(d.cache, n)
	}
	return nil
}

// read reads whole sectors.
func (d *Disk) read(b []byte, at int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, err := d.image.ReadAt(b, at); err != nil {
		return err
	}
	for i := 0; i < len(b); i += Sector {
		if cached := d.cache[(at+int64(i))/Sector]; cached != nil {
			copy(b[i:], cached[:])
		}
	}
	return nil
}

// write writes whole sectors to the cache, or through it to the image.
func (d *Disk) write(b []byte, at int64, through bool) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if through {
		d.forget(at, int64(len(b)))
		_, err := d.image.WriteAt(b, at)
		return err
	}
	for i := 0; i < len(b); i += Sector {
		n := (at + int64(i)) / Sector
		if d.cache[n] == nil {
			d.cache[n] = new([Sector]byte)
		}
		copy(d.cache[n][:], b[i:])
	}
	for n := range d.cache {
		if len(d.cache) <= mostCached {
			break
		}
		if err := d.store(n); err != nil {
			return err
		}
		delete(d.cache, n)
	}
	return nil
}

// trim gives up whole sectors at once: a disk may.
func (d *Disk) trim(at, size int64) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.forget(at, size)
	return unix.Fallocate(int(d.image.Fd()), unix.FALLOC_FL_PUNCH_HOLE|unix.FALLOC_FL_KEEP_SIZE, at, size)
}

// forget drops cached sectors; the caller holds the lock.
func (d *Disk) forget(at, size int64) {
	if size/Sector > int64(len(d.cache)) {
		for n := range d.cache {
			if n >= at/Sector && n < (at+size)/Sector {
				delete(d.cache, n)
			}
		}
		return
	}
	for n := at / Sector; n < (at+size)/Sector; n++ {
		delete(d.cache, n)
	}
}

// handshakeTime bounds how long a client may take until it uses the disk.
const handshakeTime = 20 * time.Second
