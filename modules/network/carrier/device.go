package carrier

import (
	"net"
	"strings"
	"time"

	"github.com/pkg/errors"
	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"
	"golang.zx2c4.com/wireguard/conn"
	"golang.zx2c4.com/wireguard/device"
	"golang.zx2c4.com/wireguard/tun"
	"golang.zx2c4.com/wireguard/wgctrl/wgtypes"

	"github.com/croft-edge/croft/modules/network/wireguard"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
)

// tunnelDevice is one device that this process holds.
type tunnelDevice struct {
	id     string
	config wireguard.Config // the last one that was set
	inode  uint64
	native tun.Device
	device *device.Device
}

// openDevice makes a device on its link. On failure it removes the parts that it has made.
func openDevice(id string, c wireguard.Config, t Tuning, log zerolog.Logger) (*tunnelDevice, error) {
	inode, err := netns.Inode(c.Namespace)
	if err != nil {
		return nil, err
	}
	native, made, err := attach(id, c)
	if err != nil {
		return nil, err
	}
	outbound, inbound := newWindow(t.Window, windowLeak), newWindow(t.Window, windowLeak)
	h := &tunnelDevice{id: id, inode: inode, native: native}
	h.device = device.NewDevice(
		&link{inner: native, mtu: c.MTU, batch: t.Batch, in: newPackets(0), outbound: outbound, inbound: inbound},
		&bind{Bind: conn.NewStdNetBind(), batch: t.Batch, outbound: outbound, inbound: inbound},
		deviceLogger(log.With().Str("id", id).Logger()))
	if err := h.begin(c); err != nil {
		_ = h.close(made)
		return nil, err
	}
	return h, nil
}

// begin configures a new device.
func (h *tunnelDevice) begin(c wireguard.Config) error {
	if err := bringUp(h.id, c); err != nil {
		return err
	}
	if err := h.change(c); err != nil {
		return err
	}
	// The sockets open here, in the namespace of the process.
	if err := h.device.Up(); err != nil {
		return socketError(c, err)
	}
	return nil
}

// fits reports whether c can be reached in place.
func (h *tunnelDevice) fits(c wireguard.Config) bool {
	if h.closed() || c.Name != h.config.Name || c.MTU != h.config.MTU || c.Namespace != h.config.Namespace {
		return false
	}
	return h.inNamespace()
}

// inNamespace reports whether the file still keeps the namespace that the link is in.
func (h *tunnelDevice) inNamespace() bool {
	inode, err := netns.Inode(h.config.Namespace)
	return err == nil && inode == h.inode
}

// change sends the device its differences from c.
func (h *tunnelDevice) change(c wireguard.Config) error {
	status, err := h.read()
	if err != nil {
		return err
	}
	var last *wireguard.Config
	if h.config.Name != "" {
		last = &h.config
	}
	plan := wireguard.Plan(c, last, status, time.Now())
	if plan.ListenPort != nil {
		if err := portFree(c); err != nil {
			return err
		}
	}
	if !wireguard.Empty(plan) {
		if err := h.send(c, plan, status.ListenPort); err != nil {
			return err
		}
	}
	h.config = c
	return nil
}

// send gives the device a change. A port that was taken in the meantime leaves
// it without sockets: it gets its old one back.
func (h *tunnelDevice) send(c wireguard.Config, plan wgtypes.Config, oldPort uint16) error {
	err := h.device.IpcSet(wireguard.EncodeUAPI(plan))
	if err == nil {
		return nil
	}
	if plan.ListenPort != nil && oldPort != 0 {
		port := int(oldPort)
		_ = h.device.IpcSet(wireguard.EncodeUAPI(wgtypes.Config{ListenPort: &port}))
	}
	return socketError(c, err)
}

// read asks the device how it is.
func (h *tunnelDevice) read() (wireguard.Status, error) {
	text, err := h.device.IpcGet()
	if err != nil {
		return wireguard.Status{}, errors.Wrapf(err, "cannot read WireGuard device %s", h.id)
	}
	return wireguard.ParseUAPI(text)
}

// status is its entry in a list.
func (h *tunnelDevice) status() wireguard.Status {
	s, err := h.read()
	if err != nil {
		s.Broken = err.Error()
	}
	s.ID, s.Name, s.Namespace, s.NamespaceInode = h.id, h.config.Name, h.config.Namespace, h.inode
	if s.Broken == "" {
		s.Broken = linkBroken(h.config, h.inode)
	}
	if s.Broken == "" && h.closed() {
		s.Broken = "link " + h.config.Name + " was taken away"
	}
	return s
}

// closed reports whether the device has ended, as it does when its link goes.
func (h *tunnelDevice) closed() bool {
	select {
	case <-h.device.Wait():
		return true
	default:
		return false
	}
}

// close lets go of the device, and of its link too when it has to go.
func (h *tunnelDevice) close(link bool) error {
	var err error
	if link {
		err = linkError("remove", h.config.Name, forget(h.native))
	}
	h.device.Close()
	return err
}

// portFree reports, before anything is changed, that a port is in use.
func portFree(c wireguard.Config) error {
	for _, network := range []string{"udp4", "udp6"} {
		// A kernel without IPv6 is none of our business here.
		probe, err := net.ListenUDP(network, &net.UDPAddr{Port: int(c.ListenPort)})
		if errors.Is(err, unix.EADDRINUSE) {
			return wireguard.PortInUse(c)
		}
		if err == nil {
			_ = probe.Close()
		}
	}
	return nil
}

func socketError(c wireguard.Config, err error) error {
	if errors.Is(err, unix.EADDRINUSE) {
		return wireguard.PortInUse(c)
	}
	return node.Errorf(node.Internal, "cannot configure WireGuard device %s: %w", c.Name, err)
}

// deviceLogger passes on the library's errors. Most concern a single packet, so
// they are logged for debugging only.
func deviceLogger(log zerolog.Logger) *device.Logger {
	return &device.Logger{
		Verbosef: device.DiscardLogf,
		Errorf: func(format string, args ...any) {
			log.Debug().Msgf(strings.TrimSpace(format), args...)
		},
	}
}
