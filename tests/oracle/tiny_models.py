"""The small models that the comparisons use, made by transformers from a fixed seed."""
import torch
from transformers import GPT2Config, GPT2LMHeadModel, LlamaConfig, LlamaForCausalLM


def make_gpt2(vocabulary, context, width=12, heads=3, layers=2, deviation=0.2, tied=True):
    config = GPT2Config(vocab_size=vocabulary, n_positions=context, n_embd=width, n_head=heads, n_layer=layers,
                        resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0, initializer_range=deviation,
                        bos_token_id=None, eos_token_id=None, tie_word_embeddings=tied, attn_implementation="eager")
    return perturbed(GPT2LMHeadModel(config))


def make_llama(vocabulary, context, width=16, heads=4, key_heads=4, feed_forward=24, layers=2, deviation=0.2, tied=False):
    config = LlamaConfig(vocab_size=vocabulary, max_position_embeddings=context, hidden_size=width,
                         num_attention_heads=heads, num_key_value_heads=key_heads, intermediate_size=feed_forward,
                         num_hidden_layers=layers, initializer_range=deviation, rms_norm_eps=1e-6,
                         bos_token_id=None, eos_token_id=None, tie_word_embeddings=tied, attn_implementation="eager")
    return perturbed(LlamaForCausalLM(config))


def perturbed(model):
    """Moves biases off 0 and gains off 1, so that none of them can be forgotten unnoticed."""
    with torch.no_grad():
        for parameter in model.parameters():
            if parameter.dim() == 1:
                parameter.add_(0.1 * torch.randn_like(parameter))
    return model.eval()


def loss_sum(model, documents):
    """Summed cross-entropy of every next token within its document, the number of targets, and the logits of all rows.

    Documents are run one at a time, each from position 0: what a packed row must reproduce."""
    total, targets, logits = 0.0, 0, []
    for document in documents:
        ids = torch.tensor([document])
        output = model(ids).logits[0]
        logits.append(output)
        if len(document) > 1:
            total = total + torch.nn.functional.cross_entropy(output[:-1], ids[0, 1:], reduction="sum")
            targets += len(document) - 1
    return total, targets, torch.cat(logits)
