package main_test

import (
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/resources/work"
	"github.com/croft-edge/croft/pkg/workload"
)

// registryAddress is the address of the internet's registry.
const registryAddress = "203.0.113.50:5000"

// registry starts a registry on the internet, with an image of the server.
func (b *boxes) registry() (*imagetest.Registry, string) {
	b.Helper()
	reg, err := imagetest.StartRegistry()
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = reg.Close() })
	host := b.host("registry", strings.TrimSuffix(registryAddress, ":5000"))
	var l net.Listener
	err = netns.Do(host.Path(), func() (err error) {
		l, err = net.Listen("tcp", registryAddress)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	server := &http.Server{Handler: reg, ReadHeaderTimeout: time.Minute}
	go func() { _ = server.Serve(l) }()
	b.Cleanup(func() { _ = server.Close() })
	digest, err := imagetest.Server().Push(b.Context(), registryAddress+"/app:1", reg.Behind())
	if err != nil {
		b.Fatal(err)
	}
	return reg, digest.String()
}

// from is a container with an image of the registry, at an address.
func (b *boxes) from(reference, ip string) *workload.Reservation {
	b.Helper()
	return b.Push(b.Container(b.n, func(c *workload.Container) {
		c.FList = "docker://" + registryAddress + reference
		c.Network.IPs = addresses(ip)
	}))
}

func (b *boxes) shown(r *workload.Reservation) work.WorkloadSpec {
	s, err := b.n.TryStatus()
	if err != nil {
		return work.WorkloadSpec{}
	}
	for _, w := range s.Workloads {
		if w.ID == r.ID {
			return w
		}
	}
	return work.WorkloadSpec{}
}

// TestAnImageIsPulledAheadOfTheEngine: over a slow link, while other reservations are handled, across a
// restart of the agent, and once for all containers that use it.
func TestAnImageIsPulledAheadOfTheEngine(t *testing.T) {
	b := newBoxes(t, "--image-plain-http", registryAddress)
	reg, digest := b.registry()
	reg.Set(imagetest.Faults{Pause: 10 * time.Millisecond})
	slow := b.from("/app:1", "10.1.2.20")
	some := func() bool { return reg.Seen().BlobBytes > 256<<10 }
	b.Until(back, "a part of the image has come", some)
	b.Until(back, "the progress is shown", func() bool { return strings.Contains(b.shown(slow).Pending, "its image") })
	b.volume() // isn't delayed
	if w := b.shown(slow); w.State != "" || w.Phase != "fetching" || w.Attempts != 1 {
		t.Errorf("while it is pulled it is %+v", w)
	}
	before := reg.Seen().BlobBytes
	b.n.Kill()
	b.n.Start()
	b.Until(back, "the pull goes on where it was", func() bool { return len(reg.Seen().Ranges) > 0 && reg.Seen().BlobBytes > before })
	reg.Set(imagetest.Faults{})
	if got := b.ContainerResult(slow).Image; got != digest {
		t.Errorf("the result says image %s, want %s", got, digest)
	}

	// A local image needs no registry: by its digest at once, by its tag after a moment.
	b.gone(slow)
	reg.Set(imagetest.Faults{Silent: true})
	b.ContainerResult(b.from("/app@"+digest, "10.1.2.21"))
	tagged := b.from("/app:1", "10.1.2.22")
	b.Until(back, "it is there", func() bool { return b.shown(tagged).State == workload.StateOK })
	if got := b.ContainerResult(tagged).Image; got != digest {
		t.Errorf("the result says image %s, want %s", got, digest)
	}
	b.shell.MustGet("http://10.1.2.22:8080/")
}

// silentAddress is the address of a registry that never answers.
const silentAddress = "203.0.113.51:5000"

// silent starts a registry on the internet that takes connections and never sends a byte. The channel gets one value a
// connection, as far as it has room.
func (b *boxes) silent() <-chan struct{} {
	b.Helper()
	host, asked := b.host("silent", strings.TrimSuffix(silentAddress, ":5000")), make(chan struct{}, 1)
	var l net.Listener
	err := netns.Do(host.Path(), func() (err error) {
		l, err = net.Listen("tcp", silentAddress)
		return err
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = l.Close() })
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			b.Cleanup(func() { _ = c.Close() })
			select {
			case asked <- struct{}{}:
			default:
			}
		}
	}()
	return asked
}

// TestADeletionWaitsForNoSilentRegistry: nor does the reservation of the same container with an image that is there.
func TestADeletionWaitsForNoSilentRegistry(t *testing.T) {
	const most = 10 * time.Second // two on a machine that does nothing else
	b := newBoxes(t, "--image-plain-http", registryAddress+","+silentAddress)
	b.registry()
	asked := b.silent()
	before := b.n.Left()
	pulled := b.Push(b.Container(b.n, func(c *workload.Container) {
		c.FList, c.Network.IPs = "docker://"+silentAddress+"/app:1", addresses("10.1.2.20")
	}))
	<-asked
	b.Until(back, "it waits for its image", func() bool { return strings.Contains(b.shown(pulled).Pending, "its image") })
	began := time.Now()
	b.gone(pulled)
	if took := time.Since(began); took > most {
		t.Errorf("it is deleted after %s, must be within %s", took, most)
	} else {
		t.Logf("deleted after %s", took)
	}
	b.nothing(before)
	b.ContainerResult(b.from("/app:1", "10.1.2.20"))
	b.shell.MustGet("http://10.1.2.20:8080/")
}

// TestARegistryOfANodeMayBeBad: its redirects, lies and silence affect only its own reservation.
func TestARegistryOfANodeMayBeBad(t *testing.T) {
	b := newBoxes(t, "--image-plain-http", registryAddress)
	reg, digest := b.registry()
	before := b.n.Left()
	wrong := "sha256:" + strings.Repeat("0", 64)
	mentions(t, "an unknown digest", b.Result(b.from("/app@"+wrong, "10.1.2.20"), workload.StateError).Error, wrong[:20])
	reg.Set(imagetest.Faults{Change: func(path string, body []byte) []byte {
		if strings.Contains(path, "/manifests/") {
			return append(body[:len(body)-1:len(body)-1], ' ')
		}
		return body
	}})
	mentions(t, "another manifest", b.Result(b.from("/app@"+digest, "10.1.2.20"), workload.StateError).Error, "digest")

	reg.Set(imagetest.Faults{User: "me", Password: "pa:ss"})
	mentions(t, "no password", b.Result(b.from("/app:1", "10.1.2.20"), workload.StateError).Error, "Unauthorized")
	b.nothing(before)
	auth, err := workload.SealSecret(b.n.ID, b.User.ID(), workload.TypeContainer, "image_auth", []byte("me:pa:ss"))
	if err != nil {
		t.Fatal(err)
	}
	r := b.Push(b.Container(b.n, func(c *workload.Container) {
		c.FList, c.ImageAuth = "docker://"+registryAddress+"/app:1", auth
	}))
	if got := b.ContainerResult(r).Image; got != digest {
		t.Errorf("the result says image %s, want %s", got, digest)
	}

	reg.Set(imagetest.Faults{HangAfter: 1 << 10})
	if _, err := imagetest.Server("-say", "hi").File("/more", strings.Repeat("more", 1<<20), 0o644).Push(b.Context(), registryAddress+"/other:1", reg.Behind()); err != nil {
		t.Fatal(err)
	}
	hanging := b.from("/other:1", "10.1.2.30")
	b.Until(back, "it waits", func() bool { return strings.Contains(b.shown(hanging).Pending, "its image") })
	b.volume()
	b.gone(hanging)
}
