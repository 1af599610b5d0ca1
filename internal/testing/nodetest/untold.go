package nodetest

import (
	"context"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/croft-edge/croft/modules/network/carrier"
	"github.com/croft-edge/croft/modules/network/wireguard"
	"github.com/croft-edge/croft/modules/storage/volume"
	"github.com/croft-edge/croft/pkg/btrfs"
	"github.com/croft-edge/croft/pkg/workload"
)

// Untold is a thing on a node that somebody can change under it, and neither the kernel nor containerd tells.
type Untold struct {
	What string
	// Take takes it away; There reports whether it is as it should be.
	Take  func()
	There func() bool
}

// BackFrom takes all things away, and returns after how long each was there again.
func (w *World) BackFrom(limit time.Duration, all ...Untold) []time.Duration {
	w.Helper()
	began, took := make([]time.Time, len(all)), make([]time.Duration, len(all))
	for k, one := range all {
		if !one.There() {
			w.Fatalf("%s isn't there", one.What)
		}
		began[k] = time.Now()
		one.Take()
		if one.There() {
			w.Fatalf("%s was taken away, and is there", one.What)
		}
	}
	for left := len(all); left > 0; {
		w.Until(limit, "one more of those that nobody tells of is back", func() bool {
			before := left
			for k, one := range all {
				if took[k] == 0 && one.There() {
					took[k] = time.Since(began[k])
					left--
				}
			}
			return left < before
		})
	}
	return took
}

// UntoldPeer is the only peer of a user's network, whose parts are the node's and the peer's.
func UntoldPeer(n *Node, id string, own, peer *Part) Untold {
	return Untold{
		What: "a WireGuard peer",
		Take: func() {
			key, err := wireguard.ParseKey(own.Private)
			if err == nil {
				err = askCarrier(n, func(ctx context.Context, c *carrier.Client) error {
					was, err := c.Device(ctx, id)
					if err != nil {
						return err
					}
					return c.SetDevice(ctx, id, wireguard.Config{Name: was.Name, Namespace: was.Namespace, PrivateKey: key, ListenPort: was.ListenPort})
				})
			}
			if err != nil {
				n.w.Fatal(err)
			}
		},
		There: func() bool {
			there := false
			err := askCarrier(n, func(ctx context.Context, c *carrier.Client) error {
				is, err := c.Device(ctx, id)
				there = len(is.Peers) == 1 && is.Peers[0].PublicKey.String() == peer.Public
				return err
			})
			if err != nil {
				n.w.Fatal(err)
			}
			return there
		},
	}
}

// askCarrier calls ask with a client of the node's wg carrier.
func askCarrier(n *Node, ask func(context.Context, *carrier.Client) error) error {
	ctx, cancel := context.WithTimeout(n.w.Context(), 20*time.Second)
	defer cancel()
	client, err := carrier.Ensure(ctx, carrier.Config{RunDir: n.RunDir(), Command: []string{"false"}})
	if err != nil {
		return err
	}
	defer client.Close()
	return ask(ctx, client)
}

// UntoldQuota is the limit of a volume.
func UntoldQuota(n *Node, r *workload.Reservation) Untold {
	path := n.VolumePath(r)
	group := func(do func(pool *btrfs.FS, group uint64) error) {
		pool, err := btrfs.Open(filepath.Dir(filepath.Dir(path)))
		if err != nil {
			n.w.Fatal(err)
		}
		defer pool.Close()
		id, err := btrfs.SubvolumeID(path)
		if err != nil {
			n.w.Fatal(err)
		}
		state, err := pool.Quota()
		if state.Kind == btrfs.Simple {
			id = btrfs.GroupID(volume.FamilyLevel, id)
		}
		if err == nil {
			err = do(pool, id)
		}
		if err != nil {
			n.w.Fatal(err)
		}
	}
	const size = 1 << 30 // a volume's of Reserve
	return Untold{
		What: "a volume's quota",
		Take: func() { group(func(pool *btrfs.FS, group uint64) error { return pool.Limit(group, math.MaxUint64) }) },
		There: func() (there bool) {
			group(func(pool *btrfs.FS, group uint64) error {
				is, err := pool.ReadGroup(group)
				there = is.Max == size
				return err
			})
			return there
		},
	}
}

// UntoldSetting is that a user's network forwards, a setting of the kernel in the network's namespace.
func UntoldSetting(n *Node, id string) Untold {
	const setting = "net.ipv4.ip_forward"
	namespace := filepath.Join(n.RunDir(), "network", "netns", id)
	run := func(args ...string) string {
		out, err := Command(namespace, append([]string{"sysctl", "-n"}, args...)...)
		if err != nil {
			n.w.Fatalf("sysctl %s: %v: %s", args, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	return Untold{
		What:  "a sysctl of a network's namespace",
		Take:  func() { run("-w", setting+"=0") },
		There: func() bool { return run(setting) == "1" },
	}
}
