package workload

import (
	"maps"
	"path"
	"slices"
	"strings"

	"github.com/croft-edge/croft/pkg/fielderror"
)

func validateContainer(r *Reservation, c *Container) error {
	for _, name := range slices.Sorted(maps.Keys(c.SecretEnv)) {
		if _, both := c.Env[name]; both {
			return fielderror.New(fielderror.Join("data.secret_env", name), fielderror.Words("in env too"), "in one of env and secret_env")
		}
	}
	if less := c.Without(); len(less) > 0 && r.DocumentVersion() == V1 {
		return fielderror.New("data."+less[0], fielderror.Words("true"), "absent in version 1")
	}
	if c.Name != "" && r.DocumentVersion() == V1 {
		return fielderror.New("data.name", c.Name, "absent in version 1")
	}
	if _, err := SplitEntrypoint(c.Entrypoint); err != nil {
		return err
	}
	if err := validateMounts(r, c.Mounts); err != nil {
		return err
	}
	if err := validateHash(r, "data.network.network_hash", c.Network.NetworkHash); err != nil {
		return err
	}
	for i, ip := range c.Network.IPs {
		at := fielderror.Index("data.network.ips", i)
		if err := validateAddress(at, ip); err != nil {
			return err
		}
		// Equal by value: 10.0.0.1 is ::ffff:10.0.0.1.
		if slices.ContainsFunc(c.Network.IPs[:i], ip.Equal) {
			return fielderror.New(at, ip.String(), "another address than the others")
		}
	}
	return nil
}

func validateMounts(r *Reservation, mounts []Mount) error {
	taken := map[string]bool{}
	for i, m := range mounts {
		at := fielderror.Index("data.mounts", i)
		if _, err := ParseID(m.VolumeID); err != nil {
			return fielderror.New(fielderror.Join(at, "volume_id"), m.VolumeID, "the ID of a volume's reservation: N-M, two decimal numbers")
		}
		if err := validateHash(r, fielderror.Join(at, "volume_hash"), m.VolumeHash); err != nil {
			return err
		}
		clean := path.Clean(m.Mountpoint)
		if clean == "/" {
			return fielderror.New(fielderror.Join(at, "mountpoint"), m.Mountpoint, "an absolute path other than /")
		}
		if reserved(clean) {
			return fielderror.New(fielderror.Join(at, "mountpoint"), m.Mountpoint, "an absolute path that isn't /proc, /sys or /dev, nor in one of them")
		}
		if taken[clean] {
			return fielderror.New(fielderror.Join(at, "mountpoint"), m.Mountpoint, "another path than the other mounts have")
		}
		taken[clean] = true
	}
	return nil
}

// reserved reports whether the kernel provides that clean path in a container.
func reserved(clean string) bool {
	for _, top := range []string{"/proc", "/sys", "/dev"} {
		if clean == top || strings.HasPrefix(clean, top+"/") {
			return true
		}
	}
	return false
}
