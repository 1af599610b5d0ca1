package sign

import (
	"strings"

	"github.com/blinklabs-io/go-bip39"
	"github.com/pkg/errors"
)

// WordCount is the number of words of a seed.
const WordCount = 24

// Words is the seed as 24 words of BIP-39's English list, for a backup on
// paper: 256 bits of seed and 8 of checksum. The words are the seed itself, not
// a wallet's passphrase.
func Words(k KeyPair) (string, error) {
	words, err := bip39.NewMnemonic(k.Seed())
	return words, errors.Wrap(err, "cannot make words")
}

// FromWords makes the key pair of 24 words; case and white space don't
// matter. Its errors don't repeat a word.
func FromWords(words string) (KeyPair, error) {
	list := strings.Fields(strings.ToLower(words))
	if len(list) != WordCount {
		return KeyPair{}, errors.Errorf("cannot read words: there are %d, must be %d", len(list), WordCount)
	}
	for i, w := range list {
		if _, ok := bip39.GetWordIndex(w); !ok {
			return KeyPair{}, errors.Errorf("cannot read words: word %d isn't in BIP-39's English list", i+1)
		}
	}
	seed, err := bip39.EntropyFromMnemonic(strings.Join(list, " "))
	if err != nil {
		return KeyPair{}, errors.New("cannot read words: their checksum is wrong, one of them or their order is")
	}
	return FromSeed(seed)
}
