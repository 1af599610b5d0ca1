package workload

import (
	"net"
	"time"

	"github.com/croft-edge/croft/pkg/fielderror"
	"github.com/croft-edge/croft/pkg/sign"
)

// Validate checks the content of a reservation, without its signature, a clock or
// the node: the members of the document, the data against its type's schema, and
// rules that a schema can't express. Data is judged in its canonical form only. As
// a rule its errors are FieldErrors.
func Validate(r *Reservation) error {
	if err := validateEnvelope(r); err != nil {
		return err
	}
	canonical, err := validData(r)
	if err != nil {
		return err
	}
	switch r.Type {
	case TypeContainer:
		return validateAs(canonical, func(c *Container) error { return validateContainer(r, c) })
	case TypeNetwork:
		return validateAs(canonical, func(n *Network) error { return validateNetwork(r, n) })
	case TypeKubernetes:
		return validateAs(canonical, func(k *Kubernetes) error { return validateKubernetes(r, k) })
	case TypeVolume:
		return validateAs(canonical, func(*Volume) error { return nil })
	case TypeZDB:
		return validateAs(canonical, func(*ZDB) error { return nil })
	default:
		return validateAs(canonical, validateDebug)
	}
}

func validateAs[T Data](canonical []byte, check func(*T) error) error {
	var data T
	if err := decodeCanonical(canonical, &data); err != nil {
		return err
	}
	return check(&data)
}

func validateEnvelope(r *Reservation) error {
	switch {
	case r.DocumentVersion() != V1 && r.DocumentVersion() != V2:
		return fielderror.New("version", r.Version, "%d or %d", V1, V2)
	case r.DocumentVersion() == V2 && len(r.Nonce) != NonceSize:
		return fielderror.New("nonce", len(r.Nonce), "%d bytes", NonceSize)
	case !r.Type.Known():
		return fielderror.New("type", string(r.Type), "%s", oneOf(Types()))
	}
	if r.ID != "" {
		if _, err := ParseID(r.ID); err != nil {
			return fielderror.New("id", r.ID, "N-M, two decimal numbers")
		}
	}
	if err := validateKey("node_id", r.NodeID); err != nil {
		return err
	}
	if err := validateKey("user_id", r.User); err != nil {
		return err
	}
	return validateTimes(r)
}

func validateTimes(r *Reservation) error {
	if _, err := nanoseconds("created", r.Created); err != nil {
		return err
	}
	if r.Duration <= 0 {
		return fielderror.New("duration", int64(r.Duration), "a whole number of nanoseconds of at least 1")
	}
	if end := r.Created.Add(r.Duration); !inRange(end) {
		return fielderror.New("duration", int64(r.Duration), "a whole number of nanoseconds that ends before %s", maxTime().Format(time.DateOnly))
	}
	return nil
}

func validateKey(field, id string) error {
	if _, err := sign.VerifyingKey(id); err != nil {
		return fielderror.New(field, id, "an ID: the base58 of an ed25519 public key")
	}
	return nil
}

// validateAddress accepts an address that can belong to one host.
func validateAddress(field string, ip net.IP) error {
	if !ip.IsGlobalUnicast() || ip.Equal(net.IPv4bcast) {
		return fielderror.New(field, ip.String(), "an address of one host, not of loopback, link or multicast")
	}
	return nil
}
