// The settings, kept in this browser.
const KEY = 'gull-settings';
const DEFAULTS = {
  system: '', temperature: 0.7, maxTokens: 1024, topP: 0.95, minP: 0.05, topK: 40, repeatPenalty: 1, seed: 0, theme: '', context: 0, gpuBudget: '', store: true,
  memoryTight: matchMedia('(hover: none) and (pointer: coarse)').matches,   // a phone or a tablet
};

function read() {
  try { return {...DEFAULTS, ...JSON.parse(localStorage.getItem(KEY))}; } catch { return {...DEFAULTS}; }
}

export const settings = read();

const showTheme = () => { document.documentElement.dataset.theme = settings.theme; };

/** Fills the dialog's form and keeps what the user changes. */
export function bindSettings(form) {
  showTheme();
  for (const field of form.elements) {
    if (!(field.name in settings)) continue;
    if (field.type === 'checkbox') field.checked = settings[field.name];
    else field.value = settings[field.name];
    field.addEventListener('change', () => {
      if (!field.checkValidity()) return;
      settings[field.name] = field.type === 'checkbox' ? field.checked : field.type === 'number' ? Number(field.value) : field.value;
      try { localStorage.setItem(KEY, JSON.stringify(settings)); } catch { /* private window: for this visit only */ }
      showTheme();
    });
  }
}

export const sampling = () => {
  const {temperature, maxTokens, topP, minP, topK, repeatPenalty, seed} = settings;
  return {temperature, maxTokens, topP, minP, topK, repeatPenalty, seed};
};

export const loading = () => {
  const {context, gpuBudget, store, memoryTight} = settings;
  return {context, ...(gpuBudget && {gpuBudget}), store, memoryTight};
};
