package daemon

import (
	"context"
	"net"
	"net/netip"
	"time"

	"github.com/croft-edge/croft/cmd/croftd/internal/ceiling"
	"github.com/croft-edge/croft/cmd/croftd/internal/config"
	"github.com/croft-edge/croft/cmd/croftd/internal/userapi"
	"github.com/croft-edge/croft/pkg/logs"
	"github.com/croft-edge/croft/pkg/supervise"
)

// openDoor opens the node's door for users; it doesn't serve yet.
func (d *daemon) openDoor(ctx context.Context, m clients, b *engineParts) error {
	if d.DoorListen == "" {
		return nil
	}
	var err error
	followers := logs.NewFollowers()
	containers, vms := d.containerStreams(followers), d.vmStreams(m, b, followers)
	b.door, err = userapi.Listen(ctx, userapi.Config{
		NodeID: b.nodeID, Version: d.Version.Version, Listen: d.DoorListen, File: d.DoorFile, Log: d.host().Quiet().Log,
		Sign: func(ctx context.Context, message []byte) ([]byte, error) {
			ctx, cancel := context.WithTimeout(ctx, askModule)
			defer cancel()
			return m.identity.Sign(ctx, message)
		},
		Confine:   ceiling.ConfineDoor(d.Config.Config, d.Log),
		Now:       func() (time.Time, bool) { return b.clock.Now() },
		Workloads: userWorkloads{b, m, vms.logDir, d.Log}, Streams: streamsByType{b, containers, vms},
	})
	if err != nil {
		return err
	}
	b.endStreams = containers.close
	d.Log.Info().Str("address", b.door.Address()).Msg("the door is open to users")
	return nil
}

// startDoor serves the door, and keeps a tunnel open to it unless the operator configured the address
// at which users reach it.
func (d *daemon) startDoor(parts *supervise.Group, b *engineParts, l *link) {
	if b.door == nil {
		return
	}
	parts.Start(supervise.Part{Name: "door", Again: true, Within: doorStop, Run: func(ctx context.Context) error {
		err := b.door.Run(ctx)
		if closing := b.endStreams(); err == nil {
			err = closing
		}
		return err
	}})
	if l.client == nil || (d.DoorAddress != "" && d.DoorAddress != config.Nowhere) {
		return
	}
	keeper := userapi.Keeper{
		Open: func(ctx context.Context) (net.Conn, error) { return l.client.OpenTunnel(ctx, b.nodeID) },
		Take: b.door.Take, Pause: firstPause, MaxPause: maxPause, Log: d.Log,
	}
	parts.Start(supervise.Part{Name: "tunnel", Run: keeper.Run, Again: true})
}

// doorStop is how long users' streams may take to end.
const doorStop = 10 * time.Second

// doorAddress is the door's address as the explorer tells it to users: the configured one, else the
// door's port at a public address of the machine.
func (d *daemon) doorAddress(b *engineParts, own []string) string {
	switch {
	case b.door == nil || d.DoorAddress == config.Nowhere:
		return ""
	case d.DoorAddress != "":
		return d.DoorAddress
	}
	return publicDoor(b.door.Address(), own)
}

// publicDoor is the listening port at a public address of the machine, IPv4 where there is one. Empty
// when there is none.
func publicDoor(listening string, own []string) string {
	at, err := netip.ParseAddrPort(listening)
	if err != nil {
		return ""
	}
	if !at.Addr().IsUnspecified() {
		own = []string{at.Addr().String()}
	}
	best := netip.Addr{}
	for _, text := range own {
		a, err := netip.ParseAddr(text)
		if err != nil || !public(a.Unmap()) {
			continue
		}
		if a = a.Unmap(); !best.IsValid() || (a.Is4() && !best.Is4()) {
			best = a
		}
	}
	if !best.IsValid() {
		return ""
	}
	return netip.AddrPortFrom(best, at.Port()).String()
}

// public reports whether an address is reachable from everywhere.
func public(a netip.Addr) bool {
	shared := netip.MustParsePrefix("100.64.0.0/10")
	return a.IsGlobalUnicast() && !a.IsPrivate() && !shared.Contains(a)
}
