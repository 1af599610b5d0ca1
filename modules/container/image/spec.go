package image

import (
	"regexp"
	"strings"

	"github.com/croft-edge/croft/pkg/node"
)

// labelForm is that of reservations' and users' IDs.
var labelForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9_-]{0,63}$`)

// checkSpec refuses a spec that can't be used. node.Invalid.
func checkSpec(spec node.ImageSpec) error {
	if err := checkLabel(spec.Label); err != nil {
		return err
	}
	if !labelForm.MatchString(spec.User) {
		return node.Errorf(node.Invalid, "cannot pull an image: user %.100q must be at most 64 letters and digits", spec.User)
	}
	if spec.Auth != "" && !strings.Contains(spec.Auth, ":") {
		return node.Errorf(node.Invalid, "cannot use data.image_auth: it must be user:password")
	}
	return claimOf(spec).Valid("pull an image for " + spec.Label)
}

func claimOf(spec node.ImageSpec) node.Claim {
	return node.Claim{Hash: spec.Hash, AdoptUnlabelled: spec.AdoptUnlabelled}
}

func checkLabel(label string) error {
	if !labelForm.MatchString(label) {
		return node.Errorf(node.Invalid, "cannot use image label %.100q: must be at most 64 letters, digits, - and _", label)
	}
	return nil
}
