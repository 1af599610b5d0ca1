package zdb_test

import (
	"bytes"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/croft-edge/croft/zdb"
)

// tenants serves a node's zdb: an admin's listener, the namespace "mine" with the
// password "pw", and "open", which has none.
func tenants(t *testing.T) *served {
	t.Helper()
	w := serve(t, zdb.Config{AdminSocket: true})
	admin := w.dialTo(t, w.admin)
	for _, command := range []string{"NSNEW mine", "NSSET mine password pw", "NSSET mine public 0", "NSNEW open", "NSSET open public 0"} {
		words := strings.Fields(command)
		var args []any
		for _, word := range words[1:] {
			args = append(args, word)
		}
		if _, err := admin.Do(words[0], args...); err != nil {
			t.Fatal(err)
		}
	}
	_ = admin.Close()
	return w
}

// from connects from the n-th address of this machine, each a source of its own.
func (s *served) from(n int) (net.Conn, error) {
	at := net.IPv4(127, 1, byte(n/250), byte(n%250+1))
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: at}, Timeout: patience}
	return d.Dial("tcp", s.address)
}

// tenant comes in with the password, and does something.
func (s *served) tenant(from int) error {
	conn, err := s.from(from)
	if err != nil {
		return err
	}
	c := redis.NewConn(conn, patience, patience)
	defer c.Close()
	if _, err := c.Do("SELECT", "mine", "pw"); err != nil {
		return err
	}
	if _, err := c.Do("SET", "key", fmt.Sprint(time.Now())); err != nil {
		return err
	}
	_, err = c.Do("GET", "key")
	return err
}

// 1,500 requests of 8 MB that are begun and not ended, from one address or from
// 1,500, before SELECT or in a namespace without a password, don't take the room
// of a tenant's value of 1 MB that is on its way.
func TestHalfRequestsTakeNothingFromATenant(t *testing.T) {
	for _, c := range []struct {
		what    string
		sources int
		first   string
	}{
		{"strangers of one address", 1, ""},
		{"strangers of many addresses", 1500, ""},
		{"in a namespace without a password", 1500, "*2\r\n$6\r\nSELECT\r\n$4\r\nopen\r\n"},
	} {
		t.Run(c.what, func(t *testing.T) {
			w := tenants(t)
			tenant, err := w.from(9999)
			if err != nil {
				t.Fatal(err)
			}
			defer tenant.Close()
			_ = tenant.SetDeadline(time.Now().Add(patience))
			value := strings.Repeat("v", 1<<20)
			ask := fmt.Appendf(nil, "*3\r\n$6\r\nSELECT\r\n$4\r\nmine\r\n$2\r\npw\r\n*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$%d\r\n%s\r\n", len(value), value)
			half := len(ask) - 1000
			if _, err := tenant.Write(ask[:half]); err != nil {
				t.Fatal(err)
			}
			soon(t, "half of the value is there", func() bool { return w.loop.Stats().Buffers >= 1<<20 })
			begun := append([]byte(c.first+"*3\r\n$3\r\nSET\r\n$1\r\nk\r\n$8000000\r\n"), bytes.Repeat([]byte("x"), 200_000)...)
			conns := make([]net.Conn, 1500)
			var all sync.WaitGroup
			for part := range 4 {
				all.Go(func() {
					for i := part; i < len(conns); i += 4 {
						conn, err := w.from(i % c.sources)
						if err != nil {
							t.Error(err)
							return
						}
						conns[i] = conn
						_ = conn.SetWriteDeadline(time.Now().Add(patience))
						_, _ = conn.Write(begun)
					}
				})
			}
			all.Wait()
			before := w.loop.Stats()
			soon(t, "all that came is read", func() bool {
				<-time.After(50 * time.Millisecond)
				st := w.loop.Stats()
				same := st.Accepted+st.Refused >= 1501 && st.Received == before.Received
				before = st
				return same
			})
			st := w.loop.Stats()
			t.Logf("%d connections, %d bytes are held, %d evicted, %d displaced", st.Connections, st.Buffers, st.Evicted, st.Displaced)
			if _, err := tenant.Write(ask[half:]); err != nil {
				t.Errorf("the tenant is disconnected: %v", err)
			}
			want := "+OK\r\n$1\r\nk\r\n"
			got := make([]byte, len(want))
			if n, err := io.ReadFull(tenant, got); err != nil || string(got) != want {
				t.Errorf("the tenant's SET answers %q, %v", got[:n], err)
			}
			// While it goes on, they come in too.
			if err := w.tenant(9998); err != nil {
				t.Errorf("another one of the tenant: %v", err)
			}
			for _, conn := range conns {
				if conn != nil {
					_ = conn.Close()
				}
			}
		})
	}
}

// 4,200 connections that say nothing, and come back when they are closed, leave
// places for a tenant, and for the node. Each of them waits behind the thousands that
// come back.
func TestSilentConnectionsShutNobodyOut(t *testing.T) {
	for _, sources := range []int{1, 4200} {
		t.Run(fmt.Sprint(sources, " sources"), func(t *testing.T) {
			w := tenants(t)
			stop := make(chan struct{})
			var all, full sync.WaitGroup
			const crowd, hands = 4200, 6
			for hand := range hands {
				full.Add(1)
				all.Go(func() {
					conns := make([]net.Conn, crowd/hands)
					defer func() {
						for _, c := range conns {
							if c != nil {
								_ = c.Close()
							}
						}
					}()
					for round := 0; ; round++ {
						for i := range conns {
							select {
							case <-stop:
								if round == 0 {
									full.Done()
								}
								return
							default:
							}
							if conns[i] != nil && !ended(conns[i]) {
								continue
							}
							if conns[i] != nil {
								_ = conns[i].Close()
							}
							conns[i], _ = w.from((hand*len(conns) + i) % sources)
						}
						if round == 0 {
							full.Done()
						}
					}
				})
			}
			full.Wait()
			for i := range 4 {
				if err := w.tenant(9000 + i); err != nil {
					t.Errorf("the tenant, try %d: %v", i, err)
				}
				admin := w.dialTo(t, w.admin)
				if _, err := admin.Do("NSLIST"); err != nil {
					t.Errorf("the node, try %d: %v", i, err)
				}
				_ = admin.Close()
			}
			st := w.loop.Stats()
			t.Logf("%d connections, %d refused, %d displaced", st.Connections, st.Refused, st.Displaced)
			close(stop)
			all.Wait()
		})
	}
}

// ended says that the server has closed c.
func ended(c net.Conn) bool {
	_ = c.SetReadDeadline(time.Now().Add(50 * time.Microsecond))
	_, err := c.Read(make([]byte, 64))
	timeout, ok := err.(net.Error) //nolint:errorlint // it is net's own
	return err == nil || !ok || !timeout.Timeout()
}

// Who isn't an admin hears of public namespaces, and of the one that it is in.
func TestStrangersHearOfPublicNamespaces(t *testing.T) {
	b := open(t, zdb.Config{AdminSocket: true})
	admin, c := b.admin(), b.client()
	admin.all("NSNEW hidden", "NSSET hidden public 0", "NSNEW secret", "NSSET secret public 0", "NSSET secret password pw", "NSNEW shown", "NSSET shown password pw")
	c.want("*2\r\n"+bulk("default")+bulk("shown"), "NSLIST")
	for _, name := range []string{"hidden", "secret", "none"} {
		c.want("-Namespace not found\r\n", "NSINFO "+name)
	}
	if got := c.field("NSINFO shown", "password"); got != "yes" {
		t.Errorf("password: %s", got)
	}
	c.all("SELECT secret pw")
	c.want("*3\r\n"+bulk("default")+bulk("secret")+bulk("shown"), "NSLIST")
	if got := c.field("NSINFO secret", "name"); got != "secret" {
		t.Error(got)
	}
	admin.want("*4\r\n"+bulk("default")+bulk("hidden")+bulk("secret")+bulk("shown"), "NSLIST")
}

// After 8 wrong passwords a source's further tries take time, over whichever
// connections they come; others' don't.
func TestWrongPasswordsOfASourceTakeTime(t *testing.T) {
	w := tenants(t)
	try := func(from int, password string) error {
		conn, err := w.from(from)
		if err != nil {
			return err
		}
		c := redis.NewConn(conn, patience, patience)
		defer c.Close()
		_, err = c.Do("SELECT", "mine", password)
		return err
	}
	for range 8 {
		if err := try(1, "guess"); err == nil || err.Error() != "Access denied" {
			t.Fatal(err)
		}
	}
	begun := time.Now()
	if err := try(1, "guess"); err == nil || err.Error() != "Access denied" {
		t.Error(err)
	}
	if err := try(1, "pw"); err != nil {
		t.Errorf("the right one, after it has waited: %v", err)
	}
	if took := time.Since(begun); took < 2900*time.Millisecond {
		t.Errorf("the next two tries took %v, want 1 s and 2 s", took)
	}
	// All at once they wait for each other, or are refused.
	var all sync.WaitGroup
	begun = time.Now()
	errs := make([]error, 30)
	for i := range errs {
		all.Go(func() {
			conn, err := w.from(1)
			if err != nil {
				t.Error(err)
				return
			}
			c := redis.NewConn(conn, 5*time.Second, 5*time.Second)
			defer c.Close()
			_, errs[i] = c.Do("SELECT", "mine", "guess")
		})
	}
	if err := w.tenant(2); err != nil {
		t.Error(err)
	}
	admin := w.dialTo(t, w.admin)
	for range 20 {
		if _, err := admin.Do("SELECT", "mine", "guess"); err == nil || err.Error() != "Access denied" {
			t.Errorf("an admin's: %v", err)
		}
	}
	all.Wait()
	looked := 0
	for _, err := range errs {
		if err != nil && err.Error() == "Access denied" {
			looked++
		}
	}
	if looked > 3 {
		t.Errorf("%d of 30 tries were looked at within %v", looked, time.Since(begun))
	}
}
