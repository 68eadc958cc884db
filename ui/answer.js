/** The answer of a question: its outcome in words, the confidence and the quotes from the files. */
import { html } from './vendor/preact-htm.js';
import { t } from './i18n.js';
import { Icon, formatNumber, visibleText } from './components.js';

const OUTCOME_ICONS = { answered: 'check', passage: 'quote', nothing: 'info' };

function Quote({ quote, onOpen }) {
  return html`<li class="quote">
    <button type="button" class="quote-button" onClick=${() => onOpen(quote)}>
      <span class="quote-text"><bdi>${visibleText(quote.text)}</bdi></span>
      <span class="quote-place">
        ${quote.checked && html`<span class="quote-checked" title=${t('checked_explain')}><${Icon} name="check" size=${13} />${t('quote_checked')}</span>`}
        <bdi>${visibleText(quote.place, true)}</bdi></span>
    </button></li>`;
}

function confidenceText(confidence) {
  if (confidence >= 0.7) return 'confidence_high';
  return confidence >= 0.4 ? 'confidence_middle' : 'confidence_low';
}

/**
 * The answer pane.
 * @param {{answer: {outcome: string, confidence: number, quotes: object[]}, onOpen: (quote: object) => void}} props
 */
export function Answer({ answer, onOpen }) {
  const percent = Math.round(answer.confidence * 100);
  // A file that is found by its name alone has no sentence to quote.
  if (answer.outcome !== 'nothing' && !answer.quotes.length) return null;
  return html`<section class=${`answer answer-${answer.outcome}`} aria-labelledby="answer-title">
    <div class="answer-head">
      <${Icon} name=${OUTCOME_ICONS[answer.outcome] || 'info'} />
      <h2 id="answer-title">${t(`outcome_${answer.outcome}`)}</h2>
      ${answer.outcome !== 'nothing' && html`<span class="confidence" title=${t('confidence_explain')}>
        <span class="confidence-bar" aria-hidden="true"><span style=${{ width: `${percent}%` }}></span></span>
        ${t(confidenceText(answer.confidence), { percent: formatNumber(percent) })}</span>`}
    </div>
    ${answer.outcome === 'nothing' && html`<p>${t('outcome_nothing_explain')}</p>`}
    <ul class="quotes">${answer.quotes.map((quote, index) => html`<${Quote} key=${index} quote=${quote} onOpen=${onOpen} />`)}</ul>
  </section>`;
}
