package bench

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/internal/testing/netlab"
	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// enemy is a hostile user with workloads on the node, and strangers.
type enemy struct {
	b    *testing.B
	i    *nodetest.Internet
	n    *nodetest.Node
	user sign.KeyPair
	host *netlab.Namespace
	// zdb is the address of the node's namespaces.
	zdb string

	// made counts the networks.
	made   atomic.Uint64
	stop   context.CancelFunc
	all    sync.WaitGroup
	mu     sync.Mutex
	count  map[string]int
	memory *memory
	bombs  *bombs
	// names counts the questions for names, which are never answered.
	names atomic.Int64
}

func newEnemy(b *testing.B, i *nodetest.Internet, n *nodetest.Node, zdb string) *enemy {
	b.Helper()
	user, err := sign.Generate()
	if err != nil {
		b.Fatal(err)
	}
	for k, program := range []string{flood, small} {
		enemyImage(i, k, program)
	}
	e := &enemy{b: b, i: i, n: n, user: user, zdb: zdb, host: i.Host("enemy", bombHost), count: map[string]int{}, memory: newMemory(i)}
	e.bombs = newBombs(e)
	e.swallowNames()
	return e
}

// enemyImage is the path of an image of one program; the first call compiles it.
func enemyImage(i *nodetest.Internet, k int, program string) string {
	i.Helper()
	return i.Image(fmt.Sprintf("enemy%d", k),
		imagetest.New().Program("/enemy", program).Config(func(c *v1.Config) { c.Entrypoint = []string{"/enemy"} }))
}

// flood writes unfinished lines for ever; small makes files and attributes on a volume.
const (
	flood = `package main
import "os"
func main() { half := make([]byte, 1<<16); for i := range half { half[i] = 'h' }; for { os.Stdout.Write(half) } }`
	small = `package main
import ("fmt"; "os"; "syscall"; "time")
func main() {
	for i := 0; ; i++ {
		name := fmt.Sprintf("/data/%d", i)
		if err := os.WriteFile(name, make([]byte, 2000), 0o600); err != nil { time.Sleep(time.Second); continue }
		_ = syscall.Setxattr(name, "user.a", make([]byte, 2000), 0)
	}
}`
)

// begin starts every attack.
func (e *enemy) begin() {
	ctx, stop := context.WithCancel(e.b.Context())
	e.stop = stop
	e.workloads()
	e.bombs.arm()
	for what, attack := range e.attacks() {
		for range 4 {
			e.all.Go(func() {
				for ctx.Err() == nil {
					err := attack(ctx)
					e.did(what, err)
					if err != nil {
						sleep(ctx, 100*time.Millisecond)
					}
				}
			})
		}
	}
	e.memory.start(e.b.Context())
}

// attacks are all attacks; each runs four times concurrently.
func (e *enemy) attacks() map[string]func(context.Context) error {
	return map[string]func(context.Context) error{
		refused: e.unsigned, "polls that nobody reads": e.deaf, "idle connections at the explorer": e.idle(e.explorer()),
		"silent connections at zdb": e.silent, "half requests at zdb": e.half, "strangers at the door": e.door,
		"networks": e.networks, "fresh keys": e.keys,
		"names that never answer": e.neverAnswer, "image bombs": e.bomb,
	}
}

// end stops every attack, and fails for each that had no effect because none of its attempts succeeded.
func (e *enemy) end() {
	e.stop()
	e.all.Wait()
	e.memory.stop()
	e.mu.Lock()
	defer e.mu.Unlock()
	for what := range e.attacks() {
		if e.count[what] == 0 && what != refused {
			e.b.Errorf("%s: nothing came through, the attack isn't one", what)
		}
	}
	if e.names.Load() == 0 {
		e.b.Error("no name was asked for: the name servers of the node aren't the enemy's")
	}
}

// refused is the attack whose requests are all refused: the cost of refusing them is the attack.
const refused = "unsigned bodies"

func (e *enemy) did(what string, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if err == nil {
		e.count[what]++
	} else {
		e.count[what+", turned away"]++
	}
}

func (e *enemy) told() string {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.count["names asked for"] = int(e.names.Load())
	raw, _ := json.Marshal(e.count)
	return string(raw)
}

func sleep(ctx context.Context, d time.Duration) {
	select {
	case <-ctx.Done():
	case <-time.After(d):
	}
}

// workloads are the hostile user's own, within what the node admits.
func (e *enemy) workloads() {
	network := e.i.Push(e.i.Networks(e.user, "net1", e.i.Part(e.n, "10.1.2.0/24", 3002, ""))[0])
	e.i.Result(network, workload.StateOK)
	data, err := json.Marshal(workload.Volume{Size: 1, Type: workload.SSD})
	if err != nil {
		e.b.Fatal(err)
	}
	volume := &workload.Reservation{NodeID: e.n.ID, Type: workload.TypeVolume, Created: time.Now(), Duration: time.Hour, Data: data}
	if err := volume.Sign(e.user.Private()); err != nil {
		e.b.Fatal(err)
	}
	e.i.Result(e.i.Push(volume), workload.StateOK)
	for k, program := range []string{flood, small} {
		image := enemyImage(e.i, k, program)
		r := e.i.Push(e.i.ContainerOf(e.user, e.n, func(c *workload.Container) {
			c.FList, c.Network.IPs = image, []net.IP{net.IPv4(10, 1, 2, byte(20+k)).To4()}
			if k == 1 {
				c.Mounts = []workload.Mount{nodetest.Mount(volume, "/data")}
			}
		}))
		e.i.Result(r, workload.StateOK)
	}
}

// dial connects from the enemy's host.
func (e *enemy) dial(ctx context.Context, address string) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	return e.i.DialFrom(e.host.Path())(ctx, "tcp", address)
}

func (e *enemy) explorer() string { return strings.TrimPrefix(e.i.URL, "http://") }

// unsigned posts a MiB of unsigned JSON members.
func (e *enemy) unsigned(context.Context) error {
	body := "{" + strings.Repeat(`"a":{"b":1},`, 1<<20/12) + `"z":1}`
	_, err := e.i.Do(e.host.Path(), http.MethodPost, e.i.URL+"/nodes", body, 30*time.Second)
	return err
}

// deaf requests all of a node's reservations, and doesn't read the answer.
func (e *enemy) deaf(ctx context.Context) error {
	conn, err := e.dial(ctx, e.explorer())
	if err != nil {
		return err
	}
	defer conn.Close()
	_, err = fmt.Fprintf(conn, "GET /reservations/%s/poll?from=0 HTTP/1.1\r\nHost: x\r\n\r\n", e.n.ID)
	sleep(ctx, 20*time.Second)
	return err
}

// idle holds silent connections.
func (e *enemy) idle(address string) func(context.Context) error {
	return func(ctx context.Context) error {
		var conns []net.Conn
		defer func() {
			for _, c := range conns {
				_ = c.Close()
			}
		}()
		for range 300 {
			conn, err := e.dial(ctx, address)
			if err != nil {
				sleep(ctx, time.Second)
				return err
			}
			conns = append(conns, conn)
		}
		sleep(ctx, 5*time.Second)
		return nil
	}
}

// silent holds silent connections to the node's zdb.
func (e *enemy) silent(ctx context.Context) error { return e.idle(e.zdb)(ctx) }

// half sends an incomplete large SET.
func (e *enemy) half(ctx context.Context) error {
	conn, err := e.dial(ctx, e.zdb)
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err = fmt.Fprintf(conn, "*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$4194304\r\n%s", strings.Repeat("h", 1<<20)); err != nil {
		return err
	}
	sleep(ctx, 10*time.Second)
	return nil
}

// door starts connections to the node's door without showing a key.
func (e *enemy) door(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	conn, err := e.i.DialFrom(e.n.Namespace)(ctx, "tcp", e.n.Door())
	if err != nil {
		return err
	}
	defer conn.Close()
	sleep(ctx, 4*time.Second)
	return nil
}

// networks reserves networks one after the other, each with a tunnel of its own.
func (e *enemy) networks(ctx context.Context) error {
	k := e.made.Add(1)
	part := e.i.Part(e.n, "10.7.2.0/24", uint16(4000+k%20000), "")
	part.IPRange = "10.7.0.0/16"
	r := e.i.Networks(e.user, fmt.Sprintf("n%d", k), part)[0]
	_, err := e.i.Client.Reserve(ctx, r)
	sleep(ctx, time.Second)
	return err
}

// keys reserves a container with a new key.
func (e *enemy) keys(ctx context.Context) error {
	user, err := sign.Generate()
	if err != nil {
		return err
	}
	_, err = e.i.Client.Reserve(ctx, e.i.ContainerOf(user, e.n, nil))
	sleep(ctx, time.Second)
	return err
}
