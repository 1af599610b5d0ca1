package spec

import (
	"github.com/containerd/containerd/v2/contrib/apparmor"
	"github.com/pkg/errors"
)

// ProfileName is the AppArmor profile of croft's containers: containerd's default one.
const ProfileName = "croft-container"

// LoadProfile loads the AppArmor profile of containers where the machine has
// AppArmor, and returns the host with it. Elsewhere it does nothing.
func LoadProfile(h Host) (Host, error) {
	if !h.AppArmor {
		return h, nil
	}
	if err := apparmor.LoadDefaultProfile(ProfileName); err != nil {
		return h, errors.Wrap(err, "cannot load the AppArmor profile of containers")
	}
	h.Profile = ProfileName
	return h, nil
}
