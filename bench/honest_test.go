package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/logs"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// A separate process makes the honest user's requests, as if from the user's machine. It has a higher
// priority than others, so that the durations are those of the node and the explorer, and don't depend
// on the processor time that attackers leave to a client. honestVariable holds its order, firstVariable
// marks that it has the priority.
const (
	honestVariable = "CROFT_HONEST_USER"
	firstVariable  = "CROFT_HONEST_USER_FIRST"
	honestLimit    = 30 * time.Second
)

func TestMain(m *testing.M) {
	if text := os.Getenv(honestVariable); text != "" {
		os.Exit(honestMain(text))
	}
	os.Exit(m.Run())
}

// asked is the outcome of one kind of request.
type asked struct {
	Took   []time.Duration
	Failed int
	// First is the first failure.
	First string
}

// honest is a user with an app.
type honest struct {
	b     *testing.B
	order order
}

// order are the instructions for the honest user's process.
type order struct {
	For         time.Duration
	URL, NodeID string
	// Seed is the seed of the user's key.
	Seed []byte
	// Home is the file of the user's network namespace, Web of the container's.
	Home, Web string
	// ZDB is the address of the namespace.
	ZDB, ZDBNamespace string
	// Logs is the folder of the containers' logs, Container the container's ID.
	Logs, Container string
}

func newHonest(b *testing.B, i *nodetest.Internet, n *nodetest.Node) *honest {
	b.Helper()
	i.Result(i.Push(i.Networks(i.User, "net1", i.Part(n, "10.1.2.0/24", 3001, ""))[0]), workload.StateOK)
	volume := i.Push(i.Volume(n.ID, 1, time.Hour))
	i.Result(volume, workload.StateOK)
	db := i.ZDBResult(i.Push(i.ZDB(n, nil)))
	web := i.Push(i.Container(n, func(c *workload.Container) {
		c.Mounts = []workload.Mount{nodetest.Mount(volume, "/data")}
	}))
	i.Result(web, workload.StateOK)
	answers(b, i, namespaceOf(n, web))
	return &honest{b: b, order: order{
		URL: i.URL, NodeID: n.ID, Seed: i.User.Seed(), Home: i.Host("honest", "203.0.113.20").Path(), Web: namespaceOf(n, web),
		ZDB: nodetest.ZDBAddress(db), ZDBNamespace: db.Namespace, Logs: filepath.Join(n.StateDir(), "logs"), Container: web.ID,
	}}
}

// watch runs the honest user's process for d, and returns the outcomes by kind.
func (h *honest) watch(d time.Duration) map[string]*asked {
	h.b.Helper()
	h.order.For = d
	text, err := json.Marshal(h.order)
	if err != nil {
		h.b.Fatal(err)
	}
	program, err := os.Executable()
	if err != nil {
		h.b.Fatal(err)
	}
	var answer, failures bytes.Buffer
	child := exec.Command(program)
	child.Env = append(os.Environ(), honestVariable+"="+string(text))
	child.Stdout, child.Stderr = &answer, &failures
	if err := child.Run(); err != nil {
		h.b.Fatalf("the honest user's process: %v: %s", err, failures.String())
	}
	out := map[string]*asked{}
	if err := json.Unmarshal(answer.Bytes(), &out); err != nil {
		h.b.Fatalf("the honest user's process said %q: %v", answer.String(), err)
	}
	return out
}

// goFirst gives this process real-time priority, and executes it again, so that all of its threads
// inherit the priority.
func goFirst() error {
	if os.Getenv(firstVariable) != "" {
		return nil
	}
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	first := unix.SchedAttr{Size: unix.SizeofSchedAttr, Policy: unix.SCHED_RR, Priority: 1}
	if err := unix.SchedSetAttr(0, &first, 0); err != nil {
		return fmt.Errorf("cannot go before the attackers: %w", err)
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	return unix.Exec(program, os.Args, append(os.Environ(), firstVariable+"=1"))
}

// honestMain is the main function of the honest user's process.
func honestMain(text string) int {
	u := &user{seen: map[string]*asked{}}
	err := goFirst()
	if err == nil {
		err = json.Unmarshal([]byte(text), &u.order)
	}
	if err == nil {
		u.key, err = sign.FromSeed(u.order.Seed)
	}
	if err == nil {
		u.home, u.web = stayIn(u.order.Home), stayIn(u.order.Web)
		u.client, err = explorer.NewClient(explorer.Config{
			URL: u.order.URL, Timeout: honestLimit, Transport: &http.Transport{DialContext: u.home.dial},
		})
	}
	if err == nil {
		u.watch()
		err = json.NewEncoder(os.Stdout).Encode(u.seen)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// inside are threads that stay in a network namespace, as a machine does: the cost of starting and
// moving one for each request would be measured with it.
type inside chan func()

func stayIn(namespace string) inside {
	calls := make(inside)
	for range 4 {
		go func() {
			err := netns.Do(namespace, func() error {
				for call := range calls {
					call()
				}
				return nil
			})
			if err != nil {
				fmt.Fprintln(os.Stderr, err)
				os.Exit(1)
			}
		}()
	}
	return calls
}

func (i inside) dial(ctx context.Context, network, address string) (conn net.Conn, err error) {
	done := make(chan struct{})
	i <- func() {
		defer close(done)
		// One attempt at a time: the socket must be made on the thread that is inside.
		conn, err = (&net.Dialer{FallbackDelay: -1}).DialContext(ctx, network, address)
	}
	<-done
	return conn, err
}

// user makes the honest user's requests.
type user struct {
	order order
	// home are threads in the user's namespace, web in the container's.
	home, web inside
	key       sign.KeyPair
	client    *explorer.Client
	lines     atomic.Int64

	mu   sync.Mutex
	seen map[string]*asked
}

func (u *user) watch() {
	ctx, cancel := context.WithTimeout(context.Background(), u.order.For)
	defer cancel()
	var all sync.WaitGroup
	for what, ask := range map[string]func() error{"HTTP": u.get, "log line": u.say, "volume": u.write, "zdb": u.set} {
		all.Go(func() { u.each(ctx, askEach, what, ask) })
	}
	all.Go(func() { u.each(ctx, pushEach, "reservation", u.push) })
	all.Wait()
}

// each calls ask at each interval, in a goroutine of its own, so that a slow answer doesn't hide the
// next.
func (u *user) each(ctx context.Context, pause time.Duration, what string, ask func() error) {
	tick := time.NewTicker(pause)
	defer tick.Stop()
	var all sync.WaitGroup
	defer all.Wait()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		all.Go(func() {
			began := time.Now()
			u.note(what, began, ask())
		})
	}
}

func (u *user) note(what string, began time.Time, err error) {
	took := time.Since(began)
	u.mu.Lock()
	defer u.mu.Unlock()
	a := u.seen[what]
	if a == nil {
		a = &asked{}
		u.seen[what] = a
	}
	a.Took = append(a.Took, took)
	if err != nil {
		if a.Failed++; a.First == "" {
			a.First = err.Error()
		}
	}
}

func (u *user) get() error { return u.ask(http.MethodGet, "/", "") }

// ask sends a request to the container, on a connection of its own.
func (u *user) ask(method, path, body string) error {
	client := &http.Client{Transport: &http.Transport{DialContext: u.web.dial, DisableKeepAlives: true}}
	_, err := nodetest.Request(client, method, "http://127.0.0.1:8080"+path, body, honestLimit)
	return err
}

// say makes the container write a line, and waits until the node has stored it.
func (u *user) say() error {
	line := fmt.Sprintf("honest line %d of %d", u.lines.Add(1), os.Getpid())
	if err := u.ask(http.MethodPost, "/say", line+"\n"); err != nil {
		return err
	}
	for deadline := time.Now().Add(honestLimit); time.Now().Before(deadline); time.Sleep(20 * time.Millisecond) {
		kept, err := logs.Last(u.order.Logs, u.order.Container, 1<<20)
		if err != nil && node.KindOf(err) != node.NotExist {
			return err
		}
		for _, one := range kept {
			if one.Text == line {
				return nil
			}
		}
	}
	return fmt.Errorf("%q isn't kept after %s", line, honestLimit)
}

func (u *user) write() error {
	return u.ask(http.MethodPut, "/write?path=/data/file", strings.Repeat("x", 64<<10))
}

func (u *user) set() error {
	dial := func(ctx context.Context, network, address string) (net.Conn, error) {
		ctx, cancel := context.WithTimeout(ctx, honestLimit)
		defer cancel()
		return u.home.dial(ctx, network, address)
	}
	conn, err := redis.Dial("tcp", u.order.ZDB, redis.DialContextFunc(dial), redis.DialReadTimeout(honestLimit), redis.DialWriteTimeout(honestLimit))
	if err != nil {
		return err
	}
	defer conn.Close()
	if _, err := conn.Do("SELECT", u.order.ZDBNamespace); err != nil {
		return err
	}
	if _, err := conn.Do("SET", "key", strings.Repeat("v", 4<<10)); err != nil {
		return err
	}
	_, err = conn.Do("GET", "key")
	return err
}

// push reserves a volume, waits for it, and deletes it.
func (u *user) push() error {
	ctx := context.Background()
	r := &workload.Reservation{
		NodeID: u.order.NodeID, Type: workload.TypeVolume, Created: time.Now(), Duration: time.Hour,
		Data: json.RawMessage(`{"size":1,"type":"SSD"}`),
	}
	if err := r.Sign(u.key.Private()); err != nil {
		return err
	}
	id, err := u.client.Reserve(ctx, r)
	if err != nil {
		return err
	}
	r.ID = id
	for deadline := time.Now().Add(honestLimit); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		shown, err := u.client.Get(ctx, id)
		if err != nil {
			return err
		}
		if shown.Result == nil {
			continue
		}
		if shown.Result.State != workload.StateOK {
			return fmt.Errorf("%s is %s: %s", id, shown.Result.State, shown.Result.Error)
		}
		if err := r.SignDeletion(workload.Deletion{Created: time.Now()}, u.key.Private()); err != nil {
			return err
		}
		return u.client.Delete(ctx, id, *r.Deletion)
	}
	return fmt.Errorf("no result of %s after %s", id, honestLimit)
}
